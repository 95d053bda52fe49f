"""The mathematics behind fogctl: throughput, arrivals, queues, placement, capacity, elasticity."""

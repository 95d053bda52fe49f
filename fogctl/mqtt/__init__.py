"""Devices that speak MQTT: Mosquitto on the broker node, and a bridge that carries every reading to Kafka."""

"""What stages and nodes say of themselves: measured, exposed, and read directly or through Prometheus."""

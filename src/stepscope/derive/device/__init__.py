"""What ran on the devices: the launch, op, class and precision of each activity."""

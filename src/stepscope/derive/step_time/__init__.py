"""What devices and host threads do at each time: the basis for dividing step time."""

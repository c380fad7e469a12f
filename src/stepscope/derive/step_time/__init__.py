"""What devices and host threads do when: the basis of the account of a step's time."""

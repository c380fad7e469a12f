"""What devices and host threads did: the evidence that the account rests on."""

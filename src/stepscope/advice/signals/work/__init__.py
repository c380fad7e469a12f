"""What ran: kinds of work, copies and compilations in the judged steps."""

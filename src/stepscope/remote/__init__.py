"""Recording a program from outside: a server in the program, and a client."""

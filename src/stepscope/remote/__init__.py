"""Recording a program from outside: a server in the program, a client anywhere."""

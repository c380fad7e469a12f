"""Recording a running program: from annotations and collectors to a run directory.

Nothing is imported here, so that an annotation (`annotate`) costs no more than itself.
"""

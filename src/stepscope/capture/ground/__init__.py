"""Parts of every recorder: options, clock, run directory, annotations, spool."""

"""Parts that every recorder uses: options, clock, run directory, annotations, spool."""

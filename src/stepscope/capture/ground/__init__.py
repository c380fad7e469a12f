"""What every recorder needs: options, clock, run directory, annotations, spool."""

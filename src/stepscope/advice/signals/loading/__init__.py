"""How batches are made: the stages of the input pipeline."""

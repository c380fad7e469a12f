"""How the run behaves from step to step: its memories."""

"""What can be asked of each tool: one Struct each, light to import."""

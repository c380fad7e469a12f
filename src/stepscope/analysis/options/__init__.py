"""Options of each tool: one Struct each, light to import."""

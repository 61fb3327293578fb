"""What checks the book beyond its tests: costs, other versions, links to the world."""

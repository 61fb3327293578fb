"""What is made for the book: tasks for a model, with the right answers."""

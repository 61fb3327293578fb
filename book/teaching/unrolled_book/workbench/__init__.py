"""The workbench: the book's models, trained in the page by the engine of chapter 7."""

"""What reads an exercise's file, runs an answer, and says what is wrong with it."""

from unrolled_book.exercises.engine.form import Call, Exercise, call
from unrolled_book.exercises.engine.swap import swap

__all__ = ["Call", "Exercise", "call", "swap"]

"""Figures that move, in a page and in a notebook: sliders, a mask to paint, a model to type to."""

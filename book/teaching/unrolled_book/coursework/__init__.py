"""Coursework: what an instructor hands out, collects and marks.

A syllabus (`syllabus`) names the exercises of a course. `editions` builds its notebooks, `personal`
gives each student numbers of their own, and `written` collects what a person has to read.
"""

"""The rules that every chapter keeps; CONTRIBUTING.md lists their docstrings in this order."""

from __future__ import annotations

import rules_code
import rules_names
import rules_numbers
import rules_text
from prose_numbers import unfounded

RULES = [
    rules_code.executed_in_order,
    rules_code.no_error_and_no_warning_is_stored,
    rules_code.metadata_is_clean,
    rules_code.first_code_cell_is_the_bootstrap,
    rules_code.imports_stand_in_the_first_code_cell,
    rules_code.prose_leads_code,
    rules_code.cells_are_short,
    rules_code.names_have_one_meaning,
    rules_names.names_are_met_before_they_are_used,
    rules_code.ignored_outputs_are_asserted,
    rules_code.measurements_are_asserted,
    rules_code.figures_have_alternative_text,
    rules_code.moving_figures_are_stored_in_the_pages_form,
    rules_code.the_file_is_small,
    rules_code.exercises_are_in_step_with_their_files,
    rules_text.plain_markdown,
    rules_text.formulas_hold_no_list,
    rules_text.links_lead_somewhere,
    rules_text.has_one_title,
    rules_text.opens_as_every_chapter,
    rules_text.closes_as_every_chapter,
    rules_text.says_how_long_it_takes,
    rules_text.is_light,
    rules_text.predictions_are_in_form,
    rules_numbers.numbers_survive_another_processor,
    rules_numbers.no_number_is_rounding,
    rules_numbers.no_assertion_depends_on_time,
    unfounded,
]

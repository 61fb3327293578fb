"""Exercises of chapter 5, Word vectors."""

order = (
    "company_by_hand",
    "weighted_company",
    "push_and_pull",
    "analogy_report",
    "beats_its_null",
)

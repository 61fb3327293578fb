"""Corrections to the source texts where the general rules of `plays.py` and `novels.py` fail.

Each entry is (old, new) and must match its source exactly once; the build stops otherwise. They
mend typing slips of the editions (a speaker's name with a letter dropped, a direction whose bracket
is missing), nothing in the wording.
"""

from __future__ import annotations

PLAYS: dict[str, list[tuple[str, str]]] = {
    "antony_and_cleopatra": [("ano.n--", "anon--")],
    "as_you_like_it": [
        ("  1. What shall he", "  What shall he"),
        ("  2. His leather", "  His leather"),
        ("        1. Then sing", "        Then sing"),
        ("        1. Thy father's", "        Thy father's"),
        ("        2. And thy", "        And thy"),
        ("All.  The horn", "The horn"),
    ],
    "coriolanus": [("The Senators\n\ntake their places", "The Senators\ntake their places")],
    "hamlet": [("in part hi;m;--", "in part him;--")],
    "henry_iv_part_1": [
        ("A capon, . . . . . . . . .  2s.", "A capon, 2s."),
        ("Sauce, . . . . . . . . . . . . . . 4d.", "Sauce, 4d."),
        ("two gallons ,. . . 5s.", "two gallons, 5s."),
        ("Bread, . . . . . . . . . . . . . .ob.", "Bread, ob."),
    ],
    "henry_iv_part_2": [
        ("INDUCTION\n\nWarkworth. Before the castle.\n", "INDUCTION\n"),
        ("Spoken by a Dancer.\n", ""),
        ("\nurpose, and so", "\npurpose, and so"),
    ],
    "henry_vi_part_1": [
        ("\nGloucester's men rush at", "\n[Gloucester's men rush at"),
        ("Lieutenant speaks within.\n", "Lieutenant speaks within.]\n"),
        ("Westminster Abbey.\n\nDead March. Enter", "[Dead March. Enter"),
        (
            "the Bishop of\n\nWinchester, Heralds, &c.\n",
            "the Bishop of\nWinchester, Heralds, &c.]\n",
        ),
        ("France. Before Orleans\n", ""),
        ("SCENE III.\n\nLondon. Before the Tower.\n", "SCENE III.\n"),
        ("[Exit Sergeant.\n", "[Exit Sergeant.]\n"),
        ("[A noise within, 'Down with the tawny-coats!'\n", "[A noise within.]\n"),
    ],
    "henry_vi_part_3": [
        ("Gloster.\n[Aside.]  I'll blast", "GLOSTER.\n[Aside.]  I'll blast"),
        ("Gloster.\nAnd, that I love", "GLOSTER.\nAnd, that I love"),
        ("threatEning", "threatening"),
    ],
    "henry_viii": [
        ("I COME no more", "I come no more"),
        ("THE ORDER OF THE CORONATION.\n\n1. A lively", "[1. A lively"),
        (
            "plain circlets of gold\nwithout flowers.\n",
            "plain circlets of gold\nwithout flowers.]\n",
        ),
    ],
    "john": [
        ("LouIS.", "LOUIS."),
        ("LADY FalcoNBRIDGE.\nSir", "LADY FALCONBRIDGE.\nSir"),
        ("LADY FalcoNBRIDGE.\nHast", "LADY FALCONBRIDGE.\nHast"),
    ],
    "julius_caesar": [('"Shall Rome, & c."', '"Shall Rome, &c."')],
    "lear": [("\nFool. Let me", "\nFool.\nLet me")],
    "loves_labours_lost": [
        ("@@@@\n", ""),
        ("@@@\n", ""),
        ("\nEnter HOLOFERNES, SIR NATHANIEL, and DULL.\n", "\n"),
    ],
    "macbeth": [("his passag tTill he", "his passage\nTill he")],
    "merchant_of_venice": [("PRINCE OF Morocco.", "PRINCE OF MOROCCO."), ("YOU hear", "You hear")],
    "merry_wives_of_windsor": [("\nSHALLOW, PAGE, &c. \n", "\nSHALLOW, PAGE.\n")],
    "midsummer_nights_dream": [("enforc&egrave;d", "enforced"), ("fix&egrave;d", "fixed")],
    "much_ado_about_nothing": [("but Hero;s he's", "but Hero; she's")],
    "pericles": [
        ("he'11", "he'll"),
        ("1abour", "labour"),
        ("you1 my", "you, my"),
        ("  0 lady", "  O lady"),
        ("I'11 say", "I'll say"),
        ("By flight I 'II", "By flight I'll"),
        ("depart, I 'II", "depart, I'll"),
        ("two sumMers", "two summers"),
        ("\nEnter Simonides, reading", "\n[Enter Simonides, reading"),
        ("FIRST KNIGHT.]", "FIRST KNIGHT."),
        (
            "go on board the\nbarge.\n\nEnter, from thence,",
            "go on board the\nbarge.]\n\n[Enter, from thence,",
        ),
        (
            "with the Gentlemen and\nthe two sailors.\n",
            "with the Gentlemen and\nthe two sailors.]\n",
        ),
    ],
    "richard_ii": [("ALL. Amen.", "ALL.\nAmen."), ("heavy s,ad", "heavy sad")],
    "romeo_and_juliet": [
        ("how doth she/ and what", "how doth she? and what"),
        ("\nServant.Find", "\n\nServant.\nFind"),
    ],
    "tempest": [("habited: they join]\nwith the", "habited: they join\nwith the")],
    "timon_of_athens": [("and etc.].]", "and etc.]")],
    "tragedy_of_titus_andronicus": [("here, tTo Mercury", "here, to Mercury")],
    "troilus_and_cressida": [
        ("PROLOGUE\n\nTROILUS AND CRESSIDA\n", "PROLOGUE\n"),
        ("\nANDARUS.\n", "\nPANDARUS.\n"),
        ("\nAGAME\n", "\nAGAMEMNON.\n"),
        ("I come.Exit Boy", "I come."),
        ("confound all! Exit\n", "confound all!\n"),
        ("love thee.Exeunt", "love thee."),
    ],
    "twelfth_night": [("I am mad/ or else", "I am mad, or else")],
    "winters_tale": [("_tremor cordis_", "tremor cordis")],
}

NOVELS: dict[str, list[tuple[str, str]]] = {
    "sense": [(">From you", "From you")],
    "ball": [  # the only accents
        ("Brunetière, Coppée, Hauptmann, Barrès", "Brunetiere, Coppee, Hauptmann, Barres"),
        ("Lemaître", "Lemaitre"),
        ("local café", "local cafe"),
    ],
}

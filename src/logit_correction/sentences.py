"""Results in plain English: numbers, names, and every sentence that says what a run, a comparison or an audit found.

All are made from plain values, so that pages, the console, notebooks and ``report.json`` say the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from logit_correction.errors import NBSP, format_first, format_list, format_percent, is_missing

#: Pairs of labels, and labels of which nothing can be told, that are listed.
_MOST_PAIRS, _MOST_NAMES = 5, 10

#: Members of a family of views that are named one by one; of more of them the first.
_MOST_MEMBERS = 6

#: The method that everything is measured against, and what a biased network learns first, where a view is named.
BASELINE, BIASED = "ERM", "biased"


# Numbers and names


def format_rows(count: int) -> str:
    """Return a number of rows: ``1 row``, ``1,200 rows``."""
    return f"{count:,} row{'' if count == 1 else 's'}"


def format_value(value: Any) -> str:
    """Return a setting as a reader writes it: yes and no, thousands apart, lists by commas.

    >>> format_value(True), format_value(55000), format_value(0.005), format_value([1, "a"])
    ('yes', '55,000', '0.005', '1, a')
    """
    if is_missing(value) or isinstance(value, bool):
        return "–" if is_missing(value) else "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.0f}" if 1e5 < abs(value) < 1e15 else f"{value:g}"
    return ", ".join(map(format_value, value)) if isinstance(value, list | tuple) else str(value)


def format_name(name: object) -> str:
    """Return a name from the code as words: ``minority_ratio`` becomes ``minority ratio``."""
    return str(name).replace("_", " ")


def name_views(views: Sequence[str], terms: Sequence[str] = ()) -> str:
    """Return what a sentence calls views: columns as columns, and the family of all words by the words that tell.

    >>> name_views(["colour"]), name_views(["column:scanner"]), name_views(["places:1,1", "places:4,4"])
    ('colour', 'the column `scanner`', 'the places row 1, column 1 and row 4, column 4')
    >>> name_views(["word"], ["north", "south"])
    'the words `north` and `south`'
    >>> name_views([f"word:{one}" for one in "abcdefgh"], ["north"])
    'the words `a`, `b`, `c`, `d`, `e`, `f` and 2 more'
    """
    members: dict[str, list[str]] = {}
    for family, _, member in (str(view).partition(":") for view in views):
        members.setdefault(family, []).extend([member] if member else [])
    if "word" in views:
        members["word"] = list(dict.fromkeys([*members["word"], *terms]))
    named = []
    for family, found in members.items():
        told = [f"`{one}`" for one in found] if family in ("column", "word") else found
        if family == "places":
            told = [f"row {one.replace(',', ', column ')}" for one in found]
        if family == "pair":
            named += [f"the relation of the columns `{one.replace(' & ', '` and `')}`" for one in found]
            continue
        plural = family.rstrip("s") + ("s" if len(found) > 1 else "")
        many = len(found) > _MOST_MEMBERS
        if many and family == "places":  # a list of them shows nobody where they are
            named.append(f"{len(found)} places")
        else:
            told_of = format_first(told, _MOST_MEMBERS) if many else format_list(told)
            named.append(f"the {plural} {told_of}" if told else _OF_FAMILY.get(family, family))
    return format_list(named)


#: What families of views are called whose name alone is no noun of a sentence.
_OF_FAMILY = {
    "word": "single words",
    "characters": "short runs of characters",
    "opening": "the first words",
    "closing": "the last words",
    "file": "facts of the file",
    "missing": "missing values",
    "form": "the form of the text",
    BIASED: "the features that a network learns first",
}


def is_plural(views: Sequence[str]) -> bool:
    """Return whether the name of the views is a plural."""
    return len(views) > 1 or any(view in _OF_FAMILY and view != "form" for view in views)


def capitalize(text: str) -> str:
    """Return a text that starts with a capital, all else as it is."""
    return text[:1].upper() + text[1:]


def describe_selection(selection: Any) -> str:
    """Return how a ``Selection`` chose a checkpoint, and what it took beyond the labels of the validation rows."""
    text = format_name(selection.rule)
    read = [name for name in selection.labels_read if name != "label"]
    return f"{text} (reads {format_list(read)})" if read else text


def of_minority(count: int, rows: int, named: Sequence[str]) -> list[str]:
    """Return what to tell where a method takes none of the training rows, or most of them, for bias-conflicting.

    ``named`` are views that a person calls a shortcut.

    >>> of_minority(0, 294, ["word:reef"])
    ['0 of 294 training rows are taken for bias-conflicting by the word `reef`, so nothing is corrected']
    """
    taken = f"{count:,} of {rows:,} training rows are taken for bias-conflicting"
    if named:
        told = f"{taken} by {name_views(named)}{'' if count else ', so nothing is corrected'}"
    else:
        told = f"{taken}: name the shortcut by `--shortcut VIEW`, or try other options of the method"
    return [] if 0 < count <= rows / 2 else [told]


def of_one_label(name: str, corrects: bool) -> str:
    """Return what to tell of a network that says one label of every row."""
    told = f"the network says `{name}` of every validation row"
    by = "what is corrected may be all that tells the label: name fewer views, or train with `--method ERM`"
    return f"{told}: {by if corrects else 'train longer, or lower --learning_rate'}"


# Is there a shortcut? From the ``evidence`` of ``report.json`` and ``audit.json``


#: The verdict on a view that was given by ``--shortcut``.
SAID = "You named this shortcut"


def of_evidence(sign: Mapping[str, Any], figures: Mapping[str, Any], who: str) -> str:
    """Return what the likeliest candidate tells, in a sentence or two, with its figures.

    ``sign`` is what its views tell, ``figures`` the signs of the candidate, ``who`` what the classifier is called.
    """
    views, rows = views_in(sign["view"]), int(sign.get("rows") or 0)
    view, several = name_views(views), is_plural(views)
    predict, point = ("predict", "point") if several else ("predicts", "points")
    right, network = (format_percent(sign[name], unit=" %") for name in ("accuracy", "network_accuracy"))
    told = f"{capitalize(view)} alone {predict} {right} of the held-out labels, the whole network {network}"
    with_view, with_label = (round(rows * (sign[name] or 0)) for name in ("follows_view", "follows_label"))
    where = f"On the {format_rows(rows)} where {view} clearly {point} to another label"
    follows = f"{where}, {who} follows {'them' if several else 'it'} in {with_view:,} and the label in {with_label:,}"
    if views == [BIASED] and "signs" in figures:  # the rows that the probability rests on
        signs = figures["signs"]
        follows = f"On the {format_rows(int(signs['flagged']))} that they take for another label, {who} follows them"
        follows += f" in {signs['followed']:,.0f}"
    told += f". {follows if rows else f'{capitalize(view)} never clearly {point} to another label'}"
    if along := figures.get("along"):
        told += f". They coincide with {name_views([name for one in along for name in views_in(one['view'])])}"
    if figures.get("may_be_wrong_labels"):
        told += f". {capitalize(who)} is as sure of these rows as where the label is right"
        told += ". Wrong labels would look the same"
    return told


def of_beside(beside: Sequence[Mapping[str, Any]], views: Sequence[str]) -> str:
    """Return which other views tell of the label where one finds a shortcut by ``views``: one may be a second.

    >>> of_beside([{"view": "column:site", "accuracy": 0.95}], ["column:date"]).partition(". ")[0]
    'Another view predicts the label too: the column `site` (95 %)'
    """
    named = [f"{name_views(views_in(one['view']))} ({format_percent(one['accuracy'], unit=' %')})" for one in beside]
    other, are = ("Other views predict", "one of them is") if len(beside) > 1 else ("Another view predicts", "it is")
    both = options("shortcut", [*views, *views_in(beside[0]["view"])])
    told = f"{other} the label too: {format_list(named)}. Corrected by {name_views(views)} alone, LC may rely on that"
    return f"{told}, and balanced accuracy does not show it. Name both, as in `{both}`, if {are} an accident as well"


def of_leak(sign: Mapping[str, Any], who: str) -> str:
    """Return what a view tells that agrees with the label in all rows, or in all but a few.

    >>> of_leak({"view": "column:site", "accuracy": 1.0}, "ERM").partition(". ")[2]
    'Too few rows contradict that to tell whether ERM relies on it. Leave out what will not be known in use'
    """
    views = views_in(sign["view"])
    right, predict = format_percent(sign["accuracy"], unit=" %"), "predict" if is_plural(views) else "predicts"
    told = f"{capitalize(name_views(views))} alone {predict} {right} of the held-out labels"
    relies = f"Too few rows contradict that to tell whether {who} relies on it"
    return f"{told}. {relies}. Leave out what will not be known in use"


def views_in(name: str) -> list[str]:
    """Return the names of the views that the name of a sign joins by " + "."""
    return name.split(" + ")


def answer(evidence: Mapping[str, Any]) -> str:
    """Return the verdict with the views of a shortcut: ``shortcut: colour``, ``shortcut: none found``."""
    return f"shortcut: {name_views(evidence.get('views') or []) or evidence.get('verdict')}"


def advice(evidence: Mapping[str, Any], asked: Sequence[str] | None = None) -> str:
    """Return what to say against a verdict; empty where a person said what the shortcut is.

    ``asked`` are the views that an audit asks about, by default those of the shortcut.
    """
    views = (evidence.get("views") or []) if asked is None else asked
    if not views:
        likely: Mapping[str, Any] = next(iter(evidence.get("candidates") or []), {})
        named = [view for one in likely.get("along") or [] for view in views_in(one["view"])] or likely.get("views")
        if not named or named == [BIASED] or evidence["verdict"] == "none found":  # that would be a hint
            named = []
        such = f", such as `{options('shortcut', named[:1])}`" if named else ""
        add = f"add `--shortcut VIEW`{such}. `logit-correction list views` shows the names"
        return f"If you know a shortcut, name it: {add}"
    if evidence["verdict"] != "shortcut":
        return f"Only you can tell: add `{options('shortcut', views)}` or `{options('legitimate', views)}`"
    cause = "are legitimate causes" if is_plural(views) else "is a legitimate cause"
    told = f"If {name_views(views)} {cause} of the label, add `{options('legitimate', views)}`"
    return told if evidence.get("signs") else ""


def options(name: str, views: Sequence[str]) -> str:
    """Return ``--shortcut`` or ``--legitimate`` for each view, as a command line takes them; many are a family."""
    families = [view.partition(":")[0] for view in views]
    named = [view if families.count(of) <= _MOST_MEMBERS else of for of, view in zip(families, views, strict=True)]
    return " ".join(f"--{name} {shlex.quote(view)}" for view in dict.fromkeys(named))


def describe_conflicts(conflicts: Sequence[Mapping[str, Any]]) -> str:
    """Return which labels look like which, the commonest pairs first; empty where nothing was counted."""
    pairs = [f"{one['label']} looks like {one['looks_like']} in {format_rows(one['rows'])}" for one in conflicts]
    return format_first(pairs, _MOST_PAIRS)


def describe_noise(evidence: Mapping[str, Any]) -> str:
    """Return whether label errors explain the rows that conflict; empty where nobody looked, and of no rows."""
    value, low, high = (evidence.get(name) for name in ("told_apart", "told_apart_low", "told_apart_high"))
    if value is None or low is None or high is None or not evidence.get("rows"):
        return ""
    do = "do not explain" if low > 0.5 and not evidence.get("may_be_wrong_labels") else "may explain"
    return (
        f"Label errors {do} them (AUC {value:.2f}, 90 % interval {low:.2f} to {high:.2f}; label errors would give 0.5)"
    )


# An audit


#: Conflicting rows that it takes to tell whether a given classifier relies on a view: with so many the interval of a
#: share is about 30 points wide.
NEEDED_ROWS = 30


def next_commands(found: Mapping[str, Any], place: str) -> dict[str, str]:
    """Return what to do after an audit in the folder ``place`` -> by which command, the first thing first."""
    asked, verdict, examined = found["question"], found["verdict"], found["examined"]
    if found["new_rows"]:
        return _commands_for_new_rows(found["new_rows"], place)
    again = f"logit-correction audit --config {place}/config.yaml {{}} --out {{}}"
    commands = {}
    if asked and verdict == "cannot tell" and not found["views"]:
        right = "the labels are right and " if found["evidence"].get("may_be_wrong_labels") else ""
        commands[f"If {right}it is an accident:"] = again.format(options("shortcut", asked["views"]), "another-audit")
    if examined and found["views"] and not found["leans"]:
        if not str(examined).endswith((".csv", ".parquet")):  # a run, not somebody's predictions
            test = f"logit-correction evaluate {shlex.quote(str(examined))} --on new-rows"
            commands["Test it on labelled rows from elsewhere, in which the shortcut does not hold:"] = test
    elif found["views"]:
        accident = "If it is an accident, train" if asked else "Train"
        if of_trial(found):
            accident = "If you are sure that it is an accident all the same, train"
        fix = f"logit-correction train --config {place}/fix.yaml --out fixed"
        leave = ", or leave it out of the data" if all(view.startswith("column:") for view in found["views"]) else ""
        commands[f"{accident} a classifier that does not rely on it{leave}:"] = fix
        rows = round((found["evidence"].get("share") or 0) * found["data"]["rows"]["valid"])
        if found["views"] == [BIASED] or rows < NEEDED_ROWS:  # the first is no view to examine a classifier by
            few = f"; an audit of it needs {NEEDED_ROWS} conflicting validation rows, and you have about {rows}"
            test = f"Then test it on labelled rows from elsewhere{'' if found['views'] == [BIASED] else few}:"
            commands[test] = "logit-correction evaluate fixed --on new-rows"
        else:
            examine = f"logit-correction audit --run fixed {options('shortcut', found['views'])} --out audit-of-fixed"
            commands["Then check whether it is fixed:"] = examine
    if asked:
        legitimate = again.format(options("legitimate", asked["views"]), "another-audit")
        commands["If it is a legitimate cause, look for another shortcut:"] = legitimate
    return commands


def headline(found: Mapping[str, Any]) -> str:
    """Return the answer of ``audit.json``: what to train, what a network relies on, or whether a given one does."""
    views, new = name_views(found["views"], telling_terms(found["contrasts"])), found["new_rows"]
    if new:
        first = new["candidates"][0]["name"]
        if new["chosen"] is None:
            asked = f"Label {new['asked']:,} of them" if new["asked"] else "Label some of them"
            return f"The new rows differ from the training data. {asked}."
        if new["chosen"] == first:
            return f"Train {first}: {'no correction is better' if new['answers'] else 'nothing has changed'} there."
        return f"Train {name_candidate(new['chosen'])}: about {100 * new['gain']:+.0f} points on the new rows."
    if found["examined"] and views:
        if found["leans"] is None:
            return f"It cannot be told whether this classifier relies on {views}."
        return f"This classifier {'relies' if found['leans'] else 'does not rely'} on {views}."
    if found["verdict"] == "shortcut":
        return f"You named a shortcut: {views}."
    if found["question"]:
        return f"A network may rely on {name_views(found['question']['views'], telling_terms(found['contrasts']))}."
    none = found["verdict"] == "none found"
    return "No shortcut was found." if none else "It cannot be told whether there is a shortcut."


def telling_terms(contrasts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the word that tells most of each label, of two labels at most, where all words were looked at."""
    rows = [row for one in contrasts if one["view"] == "word" for row in one["rows"]]
    return list({row["label"]: row["term"] for row in reversed(rows)}.values())[::-1][:2]


def question(views: Sequence[str], doubtful: bool = False) -> str:
    """Return the one question that only a person can answer; a ``doubtful`` one begins with the labels."""
    if doubtful:
        return f"First look at the rows that look like another label: are their labels right? {question(views)}"
    if list(views) == [BIASED]:
        compare = "Compare the rows that look like another label with the others of their label"
        return f"{compare}. Is the difference a legitimate cause of the label, or an accident of this data?"
    name = name_views(views)
    are, cause = ("Are", "legitimate causes") if is_plural(views) else ("Is", "a legitimate cause")
    return f"{are} {name} {cause} of the label, or an accident of this data?"


def of_label(name: str, verdict: str, views: Sequence[str], rows: int, with_view: int, who: str) -> str:
    """Return whether the classifier follows the view in the rows of one label."""
    where = f"on the {format_rows(rows)} where {name_views(views)} and label disagree"
    return f"{name}: {verdict}; {where}, {who} follows {'them' if is_plural(views) else 'it'} in {with_view:,}"


def label_lines(labels: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each label of which something can be told, and one for all the others together."""
    told = [one for one in labels if "follows_low" in one]
    others = [str(one["label"]) for one in labels if "sure_rows" in one and one not in told]
    lines = []
    for one in told:
        low, high = format_percent(one["follows_low"], unit=""), format_percent(one["follows_high"], unit=" %")
        lines.append(f"{one['sentence']} ({low} to {high})")
    return lines + ([f"labels with too few rows to tell: {format_first(others, _MOST_NAMES)}"] if others else [])


def classifiers(found: Mapping[str, Any]) -> dict[str, str]:
    """Return what tables call the classifier of ``audit.json``, and LC where it was tried."""
    asked = {"network": capitalize(found["classifier"].removeprefix("the "))}
    return asked | ({"fixed": "LC"} if "fixed" in found["cost"] else {})


def price(cost: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what correcting brings and costs, from the ``cost`` of ``audit.json``; empty where it is unknown.

    A line has a ``name`` and the figures of each classifier on held-out rows: ``accuracy``, ``low`` and ``high``.
    """
    known = {who: one for who, one in cost.items() if one["balanced"]["accuracy"] is not None}
    if not known:
        return []
    few, many = (next(iter(known.values()))[kind]["rows"] for kind in ("conflicting", "agreeing"))
    names = {
        "balanced": "Balanced: shortcut and label independent",
        "like_training": "Data like your training data",
        "conflicting": f"{few:,} bias-conflicting rows",
        "agreeing": f"{many:,} bias-aligned rows",
    }
    return [{"name": name, **{who: one[kind] for who, one in known.items()}} for kind, name in names.items()]


def of_price(cost: Mapping[str, Any]) -> str:
    """Return what correcting changes, in a sentence; empty where LC was not tried."""
    if "fixed" not in cost or not price(cost):
        return ""
    told = [
        " to ".join(format_percent(cost[who][kind]["accuracy"], unit=" %") for who in ("network", "fixed"))
        for kind in ("balanced", "like_training")
    ]
    return f"With LC, balanced accuracy goes from {told[0]}, and accuracy on data like yours from {told[1]}"


def of_trial(found: Mapping[str, Any]) -> str:
    """Return a warning where LC was tried and lowers balanced accuracy by more than chance; else empty."""
    before, after = (found["cost"].get(who, {}).get("balanced", {}) for who in ("network", "fixed"))
    if None in (before.get("accuracy"), after.get("accuracy")) or after["accuracy"] >= before["low"]:
        return ""
    leave = f"to leave the data alone, add `{options('legitimate', found['views'])}`"
    return f"A trial does not confirm it. {of_price(found['cost'])}. You decide: {leave}"


# New rows: what changed, what was chosen, what to type


def name_candidate(name: str) -> str:
    """Return what a sentence calls a candidate: marked as a name, unless it holds marked names itself.

    >>> name_candidate("LC by MST"), name_candidate("without the column `site`")
    ('`LC by MST`', 'without the column `site`')
    """
    return name if "`" in name else f"`{name}`"


def of_change(told: Mapping[str, Any]) -> str:
    """Return how the new rows differ from rows like the training data, by ``new_rows`` of ``audit.json``."""
    first = told["candidates"][0]
    most = max(told["candidates"][1:], key=lambda one: one["differs_new"] - one["differs_usual"])
    if told["chosen"] not in (None, first["name"]):
        most = next(one for one in told["candidates"] if one["name"] == told["chosen"])
    new, usual = (format_percent(most[f"differs_{name}"], unit=" %") for name in ("new", "usual"))
    pair = f"{first['name']} and {name_candidate(most['name'])}"
    rows = f"{pair} disagree on {new} of the {format_rows(told['rows'])} that are new"
    if told["changed"]:
        return f"{rows}, and on {usual} of rows like the training data: something that held there does not hold here"
    return f"{rows}, and on {usual} of rows like the training data, which is no more than chance"


def of_choice(told: Mapping[str, Any]) -> str:
    """Return what the answers say; without any, what to do."""
    first, chosen = told["candidates"][0]["name"], told["chosen"]
    entry = next((one for one in told["candidates"] if one["name"] == chosen), None)
    if not told["answers"]:
        if chosen == first:
            return f"So nothing is corrected for these rows: train {first}"
        return "A change is a reason to ask, not to correct: rows that are harder look the same. Your answers decide"
    by = f"By {told['answers']:,} labelled new rows"
    if entry is None or chosen == first:
        return f"{by}, no correction is clearly better than {first}: train {first}"
    gain, low, high = (f"{100 * told[name]:+.0f}" for name in ("gain", "gain_low", "gain_high"))
    changes = f"{name_candidate(entry['name'])} changes accuracy there by {gain} points against {first}"
    better = f"{by}, {changes} (90 % interval {low} to {high})"
    before, after = (format_percent(one["like_training"], unit=" %") for one in (told["candidates"][0], entry))
    stays = f"stays at {after}" if before == after else f"goes from {before} to {after}"
    return f"{better}. On rows like the training data accuracy {stays}"


def of_more(told: Mapping[str, Any]) -> str:
    """Return how many further answers would tell the best correction from ERM; empty where that is told."""
    if not told["answers"] or not told["more"]:
        return ""
    return f"This is not sure yet: it takes about {told['more']:,} further answers"


def of_new_rows(told: Mapping[str, Any]) -> list[str]:
    """Return what the new rows say: the change, the choice, and how sure it is."""
    return [text for text in (of_change(told), of_choice(told), of_more(told)) if text]


def candidate_rows(told: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a line of a table for each candidate, ERM first, then by what they gain or by what they say otherwise."""
    first, *others = told["candidates"]
    others.sort(key=lambda one: -one["differs_new"] if one["gain"] is None else -one["gain"])
    rows = []
    for one in (first, *others):
        differs = [format_percent(one[f"differs_{name}"], unit="") for name in ("new", "usual")]
        row = {"Candidate": one["name"], "Differs on new rows, %": "–", "Differs on usual rows, %": "–"}
        row |= {"Accuracy on usual rows, %": format_percent(one["like_training"], unit="")}
        if one is not first:
            row |= dict(zip(list(row)[1:3], differs, strict=True))
        if told["answers"]:
            gain, low, high = (f"{100 * one[name]:+.0f}" for name in ("gain", "gain_low", "gain_high"))
            row["Gain, points"] = "–" if one is first else f"{gain} ({low} to {high})"
        rows.append(row)
    return rows


def _commands_for_new_rows(told: Mapping[str, Any], place: str) -> dict[str, str]:
    first, chosen, more = told["candidates"][0]["name"], told["chosen"], told["more"]
    answer = f"logit-correction audit --answers {place}/sheet.csv --out {place}"
    asking = f"logit-correction audit --ask {more or 20} --out {place}"
    left = format_rows(told["asked"] - told["sheet_answers"])
    fill_in = f"Write the labels of {left} into the column `answer` of `sheet.csv`"
    if told["answers"] == 0 and told["asked"]:
        return {f"{fill_in}, as many as you like, then:": answer}
    ordinary = f"logit-correction train --config {place}/config.yaml --method {first} --out ordinary"
    if chosen is None:
        return {"Choose rows to label:": asking}
    if chosen == first:
        commands = {f"Train {first}:": ordinary}
        commands |= {} if told["answers"] else {"To be sure, label some rows all the same:": asking}
    else:
        commands = {f"Train {name_candidate(chosen)}:": f"logit-correction train --config {place}/fix.yaml --out fixed"}
    if told["asked"] > told["sheet_answers"]:
        return commands | {"To be surer, fill in more of `sheet.csv`, then:": answer}
    return commands | ({"To be surer, label more rows:": asking} if told["answers"] and more else {})


# A comparison of runs


#: Accuracies that a comparison goes by: the first of these that all runs have. The others are the price of a gain.
_JUDGED_BY = ("minority", "worst_group", "estimated_minority", "worst_class")


def conclude(
    series: Sequence[Any], figures: Mapping[str, Any], named: bool, source: str | None
) -> tuple[str, list[str], list[str]]:
    """Return what a comparison of runs on one task comes to: a headline, its price, and what to do next.

    By the worst label it cannot be told whether a shortcut misleads, and then it says so. ``series`` are
    ``pages.compare.Series``, ``figures`` those that are shown of them, ``named`` is whether the test rows have
    attributes, ``source`` whence the estimated groups are, if all are judged by such.
    """

    def shares(name: str) -> str:
        return format_list([f"{one.name} {format_percent(one.figure(name), 1)}" for one in series])

    known = [name for name in figures if all(one.values(name) for one in series)]
    key = next((name for name in _JUDGED_BY if name in known), None)
    if key is None:
        return "The test data has no rows to judge by.", [], []
    headline, advice = f"{figures[key].heading} accuracy: {shares(key)}.", []
    if len(series) > 1 and key != "worst_class":
        headline = f"{headline} {_outcome(series, key)}."
    details = [f"{figures[name].heading}: {shares(name)}." for name in known if name not in _JUDGED_BY]
    if source and key == "estimated_minority":
        details.append(f"Which rows conflict was estimated by {source}; nobody has checked it.")
    if any(len(one.runs) > 1 for one in series):
        ranges = [
            f"{len(one.runs)} runs, {_range(one.values(key))}" if len(one.runs) > 1 else "1 run" for one in series
        ]
        seeds = [f"{one.name} {told}" for one, told in zip(series, ranges, strict=True)]
        details.append(f"Figures are means over seeds: {'; '.join(seeds)}.")
    else:
        advice.append("One seed only, spread unknown: try `--seeds 3`.")
    if not named:
        details.append("The test rows name no attributes, so they cannot show whether a shortcut misleads.")
        advice.append("Judge on rows where the shortcut does not hold: `evaluate RUN --on FOLDER|CSV`.")
    if len(series) == 1 and series[0].method != BASELINE:
        advice.append(f"Train the same with `--method {BASELINE}`, then compare: `report RUN RUN`.")
    return headline, details, advice


def _range(values: Sequence[float]) -> str:
    return f"{format_percent(min(values), 1, unit='')} to {format_percent(max(values), 1)}"


def _outcome(series: Sequence[Any], key: str) -> str:
    """Who is ahead of whom by how much, or that nobody is: the best beside ERM, or else beside the second."""
    ranked = sorted(series, key=lambda one: one.figure(key), reverse=True)
    base = next((one for one in series if one.method == BASELINE), None)
    best = next(one for one in ranked if one is not base)
    other = base or ranked[1]
    gain = 100 * (round(best.figure(key), 3) - round(other.figure(key), 3))
    if not best.differs(other, key):
        return f"{best.name} and {other.name} differ by no more than chance"
    return f"{best.name} {'gains' if gain > 0 else 'loses'} {abs(gain):.1f}{NBSP}points against {other.name}"

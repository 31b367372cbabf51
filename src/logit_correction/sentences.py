"""Results in plain English: numbers, names, and every sentence that says what a run, a comparison or an audit found.

All are made from plain values, so that pages, the console, notebooks and ``report.json`` say the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from logit_correction.errors import NBSP, format_first, format_list, format_percent, is_missing
from logit_correction.finding import BASELINE, BIASED, FEWEST, Choice, Finding, Look, ViewName

#: Members of a family of views that are named one by one; of more of them the first.
_MOST_MEMBERS = 6

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
    for family, member in map(ViewName.of, views):
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


#: What to do about a network that is worse than no network.
_REMEDY = "name fewer shortcuts, try `--method.mixing NoMixing`, or train with `--method ERM`"


def of_few_right(accuracy: float, share: float, name: str) -> str:
    """Return what to tell of a network that is right less often than who always names the commonest label."""
    right, most = (format_percent(one, unit=" %") for one in (accuracy, share))
    told = f"the network is right in {right} of the validation rows, but `{name}` alone is the label of {most}"
    return f"{told}: {_REMEDY}"


def of_one_label(name: str, corrects: bool) -> str:
    """Return what to tell of a network that says one label of every row."""
    told = f"the network says `{name}` of every validation row"
    by = "what is corrected may be all that tells the label: name fewer views, or train with `--method ERM`"
    return f"{told}: {by if corrects else 'train longer, or lower --learning_rate'}"


# Is there a shortcut?


def of_finding(finding: Finding) -> str:
    """Return the verdict in a sentence or two, with its figures."""
    word = "You named this shortcut"
    if not finding.judged and finding.named:
        return word
    if finding.leak:
        return of_leak(finding.look_of(finding.leak), finding.who)
    if (look := finding.look) is None:
        if finding.judged < FEWEST:
            return f"{finding.judged} rows are too few to tell a shortcut by"
        if not finding.looks:
            return "There is no view of these inputs to look through"
        none = "Beside what you call legitimate no" if finding.legitimate else "No"
        return f"{none} view says of any row that it looks like another label"
    told = _of_look(look, finding.who)
    return f"{word}. {told}" if finding.named else told


def _of_look(look: Look, who: str) -> str:
    """Return what views tell, and who follows them."""
    view, several = name_views(look.views), is_plural(look.views)
    predict, point = ("predict", "point") if several else ("predicts", "points")
    right, network = (format_percent(share, unit=" %") for share in (look.accuracy, look.network_accuracy))
    told = f"{capitalize(view)} alone {predict} {right} of the held-out labels, the whole network {network}"
    with_view, with_label = (round(look.rows * (share or 0)) for share in (look.follows_view, look.follows_label))
    where = f"On the {format_rows(look.rows)} where {view} clearly {point} to another label"
    follows = f"{where}, {who} follows {'them' if several else 'it'} in {with_view:,} and the label in {with_label:,}"
    return f"{told}. {follows if look.rows else f'{capitalize(view)} never clearly {point} to another label'}"


def of_leak(look: Look | None, who: str) -> str:
    """Return what a view tells that agrees with the label in all rows, or in all but a few."""
    assert look is not None
    right, predict = format_percent(look.accuracy, unit=" %"), "predict" if is_plural(look.views) else "predicts"
    told = f"{capitalize(name_views(look.views))} alone {predict} {right} of the held-out labels"
    relies = f"Too few rows contradict that to tell whether {who} relies on it"
    return f"{told}. {relies}. Leave out what will not be known in use"


def plain(finding: Finding) -> dict[str, Any]:
    """Return what ``report.json`` and ``audit.json`` hold of a finding: its values, and the sentence that says them."""
    return finding.to_dict() | {"sentence": of_finding(finding)}


def answer(finding: Finding) -> str:
    """Return the verdict with the views of a shortcut: ``shortcut: colour``, ``shortcut: none found``."""
    return f"shortcut: {name_views(finding.views) or finding.verdict}"


def advice(finding: Finding, asked: Sequence[str] | None = None) -> str:
    """Return what to say against a verdict; empty where a person said what the shortcut is.

    ``asked`` are the views that an audit asks about, by default those of the shortcut.
    """
    views = finding.views if asked is None else asked
    if not views:
        named: Sequence[str] = ()
        if finding.candidates and finding.verdict != "none found":  # else that would be a hint
            named = finding.candidates[0].views
        such = f", such as `{options('shortcut', named[:1])}`" if named else ""
        add = f"add `--shortcut VIEW`{such}. `logit-correction list views` shows the names"
        return f"If you know a shortcut, name it: {add}"
    if finding.verdict != "shortcut":
        return f"Only you can tell: add `{options('shortcut', views)}` or `{options('legitimate', views)}`"
    cause = "are legitimate causes" if is_plural(views) else "is a legitimate cause"
    told = f"If {name_views(views)} {cause} of the label, add `{options('legitimate', views)}`"
    return told if finding.looks else ""


def options(name: str, views: Sequence[str]) -> str:
    """Return ``--shortcut`` or ``--legitimate`` for each view, as a command line takes them; many are a family."""
    families = [ViewName.of(view).family for view in views]
    named = [view if families.count(of) <= _MOST_MEMBERS else of for of, view in zip(families, views, strict=True)]
    return " ".join(f"--{name} {shlex.quote(view)}" for view in dict.fromkeys(named))


# An audit


#: Conflicting rows that it takes to tell whether a given classifier relies on a view: with so many the interval of a
#: share is about 30 points wide.
NEEDED_ROWS = 30


def next_commands(found: Mapping[str, Any], place: str) -> dict[str, str]:
    """Return what to do after an audit in the folder ``place`` -> by which command, the first thing first."""
    asked, verdict, examined = found["question"], found["verdict"], found["examined"]
    if found["new_rows"]:
        return _commands_for_new_rows(Choice.from_dict(found["new_rows"]), place)
    finding = Finding.from_dict(found["evidence"])
    again = f"logit-correction audit --config {place}/config.yaml {{}} --out {{}}"
    commands = {}
    if asked and verdict == "cannot tell" and not found["views"]:
        commands["If it is an accident:"] = again.format(options("shortcut", asked["views"]), "another-audit")
    if examined and found["views"] and not found["leans"]:
        if not str(examined).endswith((".csv", ".parquet")):  # a run, not somebody's predictions
            test = f"logit-correction evaluate {shlex.quote(str(examined))} --on new-rows"
            commands["Test it on labelled rows from elsewhere, in which the shortcut does not hold:"] = test
    elif found["views"]:
        accident = "If it is an accident, train" if asked else "Train"
        if of_trial(found):
            accident = "If you are sure that it is an accident all the same, train"
        fix = f"logit-correction train --config {place}/fix.yaml --out fixed"
        columns = {ViewName.of(view).family for view in found["views"]} == {"column"}
        leave = ", or leave it out of the data" if columns else ""
        commands[f"{accident} a classifier that does not rely on it{leave}:"] = fix
        rows = round((finding.look.share if finding.look else 0) * found["data"]["rows"]["valid"])
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
    views = name_views(found["views"], telling_terms(found["contrasts"]))
    if found["new_rows"]:
        new = Choice.from_dict(found["new_rows"])
        if new.chosen is None:
            asked = f"Label {new.asked:,} of them" if new.asked else "Label some of them"
            return f"The new rows differ from the training data. {asked}."
        if not new.corrects:
            return f"Train {new.chosen}: {'no correction is better' if new.answers else 'nothing has changed'} there."
        return f"Train {name_candidate(new.chosen)}: about {_points(new.gain)} points on the new rows."
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


def question(views: Sequence[str]) -> str:
    """Return the one question that only a person can answer."""
    are, cause = ("Are", "legitimate causes") if is_plural(views) else ("Is", "a legitimate cause")
    return f"{are} {name_views(views)} {cause} of the label, or an accident of this data?"


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

    >>> name_candidate("LC by XRM"), name_candidate("without the column `site`")
    ('`LC by XRM`', 'without the column `site`')
    """
    return name if "`" in name else f"`{name}`"


def _points(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:+.0f}"


def of_change(new: Choice) -> str:
    """Return how the new rows differ from rows like the training data."""
    most = max(new.candidates[1:], key=lambda one: one.differs_new - one.differs_usual)
    if new.corrects and new.trained is not None:
        most = new.trained
    share, usual = (format_percent(one, unit=" %") for one in (most.differs_new, most.differs_usual))
    pair = f"{new.baseline.name} and {name_candidate(most.name)}"
    rows = f"{pair} disagree on {share} of the {format_rows(new.rows)} that are new"
    if new.changed:
        return f"{rows}, and on {usual} of rows like the training data: something that held there does not hold here"
    return f"{rows}, and on {usual} of rows like the training data, which is no more than chance"


def of_choice(new: Choice) -> str:
    """Return what the answers say; without any, what to do."""
    first = new.baseline.name
    if not new.answers:
        if new.chosen == first:
            return f"So nothing is corrected for these rows: train {first}"
        return "A change is a reason to ask, not to correct: rows that are harder look the same. Your answers decide"
    by = f"By {new.answers:,} labelled new rows"
    if not new.corrects or new.trained is None:
        return f"{by}, no correction is clearly better than {first}: train {first}"
    gain, low, high = map(_points, (new.gain, new.gain_low, new.gain_high))
    changes = f"{name_candidate(new.trained.name)} changes accuracy there by {gain} points against {first}"
    better = f"{by}, {changes} (90 % interval {low} to {high})"
    before, after = (format_percent(one.like_training, unit=" %") for one in (new.baseline, new.trained))
    stays = f"stays at {after}" if before == after else f"goes from {before} to {after}"
    return f"{better}. On rows like the training data accuracy {stays}"


def of_new_rows(new: Choice) -> list[str]:
    """Return what the new rows say: the change, the choice, and how sure it is."""
    more = f"This is not sure yet: it takes about {new.more:,} further answers" if new.answers and new.more else ""
    return [text for text in (of_change(new), of_choice(new), more) if text]


def candidate_rows(new: Choice) -> list[dict[str, str]]:
    """Return a line of a table for each candidate, ERM first, then by what they gain or by what they say otherwise."""
    first, *others = new.candidates
    others.sort(key=lambda one: -one.differs_new if one.gain is None else -one.gain)
    rows = []
    for one in (first, *others):
        differs = [
            "–" if one is first else format_percent(share, unit="") for share in (one.differs_new, one.differs_usual)
        ]
        row = {"Candidate": one.name, "Differs on new rows, %": differs[0], "Differs on usual rows, %": differs[1]}
        row["Accuracy on usual rows, %"] = format_percent(one.like_training, unit="")
        if new.answers:
            gain, low, high = map(_points, (one.gain, one.gain_low, one.gain_high))
            row["Gain, points"] = "–" if one is first else f"{gain} ({low} to {high})"
        rows.append(row)
    return rows


def _commands_for_new_rows(new: Choice, place: str) -> dict[str, str]:
    first = new.baseline.name
    answer = f"logit-correction audit --answers {place}/sheet.csv --out {place}"
    asking = f"logit-correction audit --ask {new.more or 20} --out {place}"
    left = format_rows(new.asked - new.sheet_answers)
    fill_in = f"Write the labels of {left} into the column `answer` of `sheet.csv`"
    if new.answers == 0 and new.asked:
        return {f"{fill_in}, as many as you like, then:": answer}
    if new.chosen is None:
        return {"Choose rows to label:": asking}
    if new.corrects:
        fix = f"logit-correction train --config {place}/fix.yaml --out fixed"
        commands = {f"Train {name_candidate(new.chosen)}:": fix}
    else:
        ordinary = f"logit-correction train --config {place}/config.yaml --method {first} --out ordinary"
        commands = {f"Train {first}:": ordinary}
        commands |= {} if new.answers else {"To be sure, label some rows all the same:": asking}
    if new.asked > new.sheet_answers:
        return commands | {"To be surer, fill in more of `sheet.csv`, then:": answer}
    return commands | ({"To be surer, label more rows:": asking} if new.answers and new.more else {})


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
    if below := [one.name for one in series if one.below_guessing]:  # no other figure stands above that
        are, them = ("are", "them") if len(below) > 1 else ("is", "it")
        details.insert(0, headline)
        headline = f"{format_list(below)} {are} right less often than a guess, labels weighing alike."
        advice.insert(0, f"Do not use {them}: {_REMEDY}.")
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

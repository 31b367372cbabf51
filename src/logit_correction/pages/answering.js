// Answers to the rows of a sheet, one row at a time: by buttons, keys or touch. What is saved is the sheet itself with its
// column `answer` filled in. Nothing is sent anywhere; answers are kept in this browser until they are saved.
"use strict";
(() => {
  const UNKNOWN = -1;
  const sheet = JSON.parse(document.getElementById("answering-sheet").textContent);
  const form = document.getElementById("answering");
  const overview = document.getElementById("rows-to-label");
  const items = [...overview.children];
  const find = (name) => form.querySelector(`[data-part="${name}"]`);
  const row = find("row");
  const labels = find("labels");
  const filter = find("filter");
  const status = find("status");

  let isGrid = false;

  // Answers are kept twice: in the tab's history, which a reload always finds again (some browsers at times lose what a page
  // from a file has just put into localStorage), and in localStorage, which outlasts the tab and is shared with others.
  function load() {
    const kept = [history.state, readStorage()].filter(isValid).sort((one, other) => other.time - one.time);
    const latest = kept[0] ?? { key: sheet.key, current: 0, history: [] };
    return { ...latest, answers: mergeAnswers(...kept.map(({ answers }) => answers)) };
  }

  const isValid = (kept) =>
    kept?.key === sheet.key && kept.answers && Array.isArray(kept.history) && items[kept.current] !== undefined;

  function readStorage() {
    try {
      return JSON.parse(localStorage.getItem(sheet.key));
    } catch {
      return null; // a browser that keeps nothing, or something else under this key
    }
  }

  // Row -> { number, time }, the latest of each row; the number of an answer that was undone is null.
  function mergeAnswers(...parts) {
    const merged = {};
    for (const [index, answer] of parts.flatMap(Object.entries)) {
      if (!(merged[index]?.time >= answer.time)) merged[index] = answer;
    }
    return merged;
  }

  function takeAnswersOfOtherTabs() {
    const stored = readStorage();
    if (isValid(stored)) state.answers = mergeAnswers(state.answers, stored.answers);
  }

  function keep() {
    takeAnswersOfOtherTabs();
    state.time = Date.now();
    history.replaceState(state, "");
    try {
      localStorage.setItem(sheet.key, JSON.stringify(state));
    } catch {
      // The answers then last as long as the tab.
    }
  }

  const getAnswer = (index) => state.answers[index]?.number ?? null;
  const setAnswer = (index, number) => (state.answers[index] = { number, time: Date.now() });
  const isAnswered = (index) => getAnswer(index) !== null;
  const labelName = (number) => (number === UNKNOWN ? "I do not know" : sheet.labels[number].name);

  function nextOpen(from) {
    for (let step = 1; step <= items.length; step++) {
      const index = (from + step) % items.length;
      if (!isAnswered(index)) return index;
    }
    return from;
  }

  function answer(number) {
    const index = state.current;
    state.history.push([index, getAnswer(index)]);
    setAnswer(index, number);
    state.current = nextOpen(index);
    filter.value = "";
    keep();
    show(`${sheet.rows[index].name}: ${labelName(number)}.`);
  }

  function undo() {
    const last = state.history.pop();
    if (!last) return;
    const [index, before] = last;
    setAnswer(index, before);
    state.current = index;
    keep();
    show("Undone.");
  }

  function move(step) {
    state.current = (state.current + step + items.length) % items.length;
    keep();
    show("");
  }

  function shownLabels() {
    const wanted = filter.value.trim().toLowerCase();
    const numbers = sheet.labels.map((_, number) => number);
    return numbers.filter((number) => sheet.labels[number].name.toLowerCase().includes(wanted));
  }

  function makeButton(number, key) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", String(getAnswer(state.current) === number));
    if (key !== "") {
      const hint = document.createElement("kbd");
      hint.textContent = key;
      button.append(hint, " ");
    }
    button.append(labelName(number));
    button.addEventListener("click", () => answer(number));
    return button;
  }

  function show(message) {
    const index = state.current;
    row.replaceChildren(...[...items[index].childNodes].map((node) => node.cloneNode(true)));
    row.querySelector("img")?.classList.toggle("small", items[index].querySelector("img").naturalWidth <= 128);
    labels.replaceChildren(
      ...shownLabels().map((number, place) => makeButton(number, place < 9 ? String(place + 1) : "")),
      makeButton(UNKNOWN, "0"),
    );
    const numbers = items.map((_, number) => getAnswer(number)).filter((number) => number !== null);
    const done = numbers.length;
    const named = numbers.filter((number) => number !== UNKNOWN).length;
    find("progress").value = done;
    find("count").textContent = `${done} of ${items.length}`;
    find("undo").disabled = state.history.length === 0;
    find("save").disabled = named === 0;
    find("finished").hidden = done < items.length;
    find("saved").hidden = true; // until the answers as they are now are saved
    items.forEach((item, number) => {
      item.classList.toggle("answered", isAnswered(number));
      item.dataset.answer = isAnswered(number) ? labelName(getAnswer(number)) : "";
    });
    status.textContent = `${message} Row ${index + 1} of ${items.length}: ${sheet.rows[index].name}.`;
  }

  function showGrid(wanted) {
    isGrid = wanted;
    overview.hidden = !isGrid;
    find("one").hidden = isGrid;
    find("grid").setAttribute("aria-pressed", String(isGrid));
  }

  function zoom() {
    const isLarge = row.classList.toggle("zoomed");
    find("zoom").setAttribute("aria-pressed", String(isLarge));
  }

  function sheetAsCsv() {
    const lines = sheet.rows.map(({ cells }, index) => {
      const number = getAnswer(index) ?? UNKNOWN;
      return cells + (number === UNKNOWN ? "" : sheet.labels[number].cell);
    });
    return [sheet.heading, ...lines, ""].join("\n");
  }

  function save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([sheetAsCsv()], { type: "text/csv;charset=utf-8" }));
    link.download = sheet.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    find("finished").hidden = true;
    find("saved").hidden = false;
    status.textContent = `Saved as ${sheet.file}.`;
  }

  const keys = {
    ArrowLeft: () => move(-1),
    ArrowRight: () => move(1),
    Backspace: undo,
    u: undo,
    g: () => showGrid(!isGrid),
    z: zoom,
    s: () => find("save").disabled || save(),
    0: () => answer(UNKNOWN),
  };

  function onKey(event) {
    if (event.target === filter) {
      if (event.key === "Enter" && shownLabels().length) {
        event.preventDefault();
        answer(shownLabels()[0]);
      }
      return;
    }
    if (event.ctrlKey && event.key === "z") {
      event.preventDefault();
      undo();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const number = shownLabels()[Number(event.key) - 1];
    const action = keys[event.key] ?? (/^[1-9]$/.test(event.key) && number !== undefined && (() => answer(number)));
    if (!action) return;
    event.preventDefault();
    action();
    const shown = find("saved").hidden ? find("one") : find("saved");
    if (!isGrid) shown.scrollIntoView({ block: "nearest" }); // a key answers what can be seen
  }

  items.forEach((item, index) =>
    item.addEventListener("click", () => {
      state.current = index;
      showGrid(false);
      show("");
    }),
  );
  for (const [name, action] of Object.entries({
    previous: () => move(-1),
    next: () => move(1),
    undo,
    zoom,
    save,
    grid: () => showGrid(!isGrid),
  })) {
    find(name).addEventListener("click", action);
  }
  filter.addEventListener("input", () => show(""));
  filter.closest("label").hidden = sheet.labels.length <= 9;
  find("zoom").hidden = !items.some((item) => item.querySelector("img"));
  document.addEventListener("keydown", onKey);
  addEventListener("storage", ({ key }) => {
    if (key !== sheet.key) return;
    takeAnswersOfOtherTabs();
    show("");
  });
  const state = load();
  form.hidden = false;
  showGrid(false);
  show("");
})();

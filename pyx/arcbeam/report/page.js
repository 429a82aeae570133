"use strict";
// Text reaches the page as text nodes and attributes alone, so that no word or id is read as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const { utterances, score } = data;
const SLICE = 200; // utterances that are added at a time, as the reader scrolls
const OF_SVG = ["svg", "g", "path", "rect", "circle", "text", "title"];
const FORMATS = [0, 1, 2, 3].map((digits) =>
  new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));

const byId = (id) => document.getElementById(id);
const known = (value) => value !== null && value !== undefined;
const shown = (number, digits = 0) => (known(number) ? FORMATS[digits].format(number) : "");
const count = (number, thing) => `${shown(number)} ${thing}${number === 1 ? "" : "s"}`;
const wordsOf = (text) => (text ? text.split(" ") : []);

function make(tag, attributes = {}, ...children) {
  const space = OF_SVG.includes(tag) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const element = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) if (known(value)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function button(label, attributes, onClick) {
  const made = make("button", { type: "button", ...attributes }, ...[label].flat());
  made.addEventListener("click", onClick);
  return made;
}

// ---- Summary

function showFigures() {
  const rate = (errors) => (score.words ? `${shown((100 * errors) / score.words, 2)} %` : "undefined");
  const figures = [
    [rate(score.errors), `WER: ${count(score.errors, "error")}, ${count(score.words, "word")}`],
    ...["substitutions", "deletions", "insertions"].map((kind) => [shown(score[kind]), kind]),
    [shown(score.utterances), `utterances, ${shown(score.wrong)} with errors`],
  ];
  if (known(score.oracle_errors)) figures.push([rate(score.oracle_errors), "oracle WER of n-best lists"]);
  for (const [value, label] of figures)
    byId("figures").append(make("div", {}, make("b", {}, value), make("span", {}, label)));
}

function plot(title, note, content) {
  byId("plots").append(make("div", {}, make("h2", {}, title), make("p", {}, note), content));
}

// A plot whose area goes from (40, 165) to (300, 15); `marks` are on the vertical axis.
function axes(label, marks, ...content) {
  const lines = marks.flatMap(([share, mark]) => [
    make("path", { d: `M40 ${165 - 150 * share}H300` }), make("text", { x: 20, y: 169 - 150 * share }, mark)]);
  return make("svg", { viewBox: "0 0 310 205", role: "img", "aria-label": label }, ...lines, ...content,
    make("text", { x: 170, y: 202 }, label));
}

function showCalibration({ words, nce, bins }) {
  const most = Math.max(...bins.map((bin) => bin.words));
  const points = bins.map((bin) => make("circle", {
    class: "mark", cx: 40 + 260 * bin.confidence, cy: 165 - 150 * bin.right, r: 3 + 8 * Math.sqrt(bin.words / most),
  }, make("title", {}, `confidence ${shown(bin.confidence, 2)}: ` +
    `${shown(100 * bin.right, 1)} % of ${count(bin.words, "word")} are right`)));
  const below = [0, 0.5, 1].map((share) => make("text", { x: 40 + 260 * share, y: 183 }, share));
  const note = `Share of right words; normalised cross entropy ${known(nce) ? shown(nce, 3) : "undefined"}`;
  plot("Calibration", `${note}, ${count(words, "word")}`, axes("confidence", [[0, "0"], [0.5, "50"], [1, "100 %"]],
    make("path", { class: "diagonal", d: "M40 165L300 15" }), ...below, ...points));
}

function showLengths(groups) {
  const rates = groups.map((group) => (100 * group.errors) / Math.max(group.words, 1));
  const top = Math.max(...rates, 1), step = 260 / groups.length;
  const bars = groups.flatMap(({ least, most, errors, words, utterances }, place) => {
    const height = (150 * rates[place]) / top, x = 40 + step * (place + 0.5);
    const note = `${count(errors, "error")} in ${count(words, "word")} of ${count(utterances, "utterance")}`;
    return [
      make("rect", { class: "mark", x: x - step * 0.3, y: 165 - height, width: step * 0.6, height, rx: 2 },
        make("title", {}, note)),
      make("text", { x, y: 183 }, known(most) ? (most > least ? `${least}–${most}` : least) : `${least}+`),
    ];
  });
  const marks = [[0, "0"], [0.5, shown(top / 2, 1)], [1, `${shown(top, 1)} %`]];
  plot("Errors by length", "Word error rate of shorter and longer utterances",
    axes("words of the reference", marks, ...bars));
}

function showConfusions() {
  const items = data.confusions.map((one) => {
    const [said, found] = one.pair;
    one.text = said && found ? `${said} → ${found}` : said ? `${said} deleted` : `${found} inserted`;
    one.button = button([make("span", {}, shown(one.count)), one.text], { "aria-pressed": false }, () => {
      chosen?.button.setAttribute("aria-pressed", false);
      chosen = chosen === one ? null : one;
      one.button.setAttribute("aria-pressed", chosen === one);
      list();
    });
    return make("li", {}, one.button);
  });
  plot("Most frequent errors", items.length ? "Choose one to see its utterances" : "None",
    make("ul", { id: "confusions" }, ...items));
}

// ---- Table

const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
utterances.forEach((one, place) => {
  const words = wordsOf(one.reference ?? one.text).length;
  one.cells = {
    id: one.id, rate: known(one.errors) && words ? (100 * one.errors) / words : null, errors: one.errors, words,
    confidence: mean(one.confidences.filter(known)), seconds: one.frame_shift ? one.frames * one.frame_shift : null,
  };
  one.place = place;
  one.searched = `${one.id} ${one.text} ${one.reference ?? ""}`.toLowerCase();
});
const COLUMNS = [
  ["id", "Utterance"], ["rate", "WER %", 1], ["errors", "Errors", 0],
  ["words", "Words", 0, `of the ${score ? "reference" : "transcript"}`],
  ["confidence", "Conf.", 2, "mean confidence of the words"], ["seconds", "Sec.", 1, "seconds"],
].filter(([name]) => utterances.some((one) => known(one.cells[name])));
let order = null, ascending = true, chosen = null, listed = [], added = 0;

function showColumns() {
  for (const [name, title, , hint] of COLUMNS) {
    const head = make("th", { scope: "col" }, button(title, { title: hint }, () => {
      ascending = order === name ? !ascending : name === "id" || name === "confidence"; // errors: the most first
      order = name;
      byId("utterances").querySelector("th[aria-sort]")?.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      list();
    }));
    byId("utterances").tHead.rows[0].append(head);
  }
}

// Lists the utterances that are searched for, in the order of the chosen column; those without a value come last.
function list() {
  const query = byId("search").value.trim().toLowerCase(), wrong = byId("wrong").checked;
  listed = utterances.filter((one) =>
    one.searched.includes(query) && (!wrong || one.errors > 0) && (!chosen || chosen.utterances.includes(one.place)));
  const compare = (a, b) => known(b) - known(a) || (a < b ? -1 : a > b ? 1 : 0) * (ascending ? 1 : -1);
  if (order) listed.sort((one, other) => compare(one.cells[order], other.cells[order]));
  const all = count(utterances.length, "utterance"), part = listed.length < utterances.length;
  byId("shown").textContent = (part ? `${shown(listed.length)} of ${all}` : all) + (chosen ? `: ${chosen.text}` : "");
  for (const body of [...byId("utterances").tBodies]) body.remove();
  added = 0;
  addSlice();
}

function addSlice() {
  byId("utterances").append(...listed.slice(added, (added += SLICE)).map(row));
}

function row(one) {
  const words = make("p", { class: "words" }, ...aligned(one, one));
  if (one.audio) {
    words.prepend(button("▶", { class: "play", "aria-label": `Play ${one.id}` }, () => play(one, words, 0)));
    words.querySelector("[data-start]")?.setAttribute("tabindex", 0);
    words.addEventListener("click", (event) => playWord(event.target, one, words));
    words.addEventListener("keydown", (event) => onKey(event, one, words));
  }
  if (score && !known(one.signs)) words.append(make("span", { class: "quiet" }, "(no reference)"));
  const whole = (...content) => make("tr", {}, make("td", { class: "whole", colspan: COLUMNS.length }, ...content));
  const toggle = button(one.id, { "aria-expanded": false }, () => {
    const open = toggle.getAttribute("aria-expanded") === "false";
    toggle.setAttribute("aria-expanded", open);
    if (open) body.append(whole(...details(one)));
    else body.lastChild.remove();
  });
  const cells = COLUMNS.slice(1).map(([name, , digits]) => make("td", {}, shown(one.cells[name], digits)));
  const body = make("tbody", {}, make("tr", {}, make("td", {}, toggle), ...cells), whole(words));
  return body;
}

// ---- An utterance

// The words of `found`, which is an utterance or an entry of its n-best list, along their alignment.
function aligned(found, one) {
  const said = wordsOf(one.reference), words = wordsOf(found.text), nodes = [];
  let i = 0, j = 0;
  for (const sign of found.signs ?? "=".repeat(words.length)) {
    const kind = sign === "S" ? "substitution" : "deletion";
    if (sign === "S" || sign === "D") nodes.push(make("del", { class: kind }, said[i]), " ");
    if (sign !== "D") nodes.push(word(words[j], sign, found.times?.[j] ?? [], found.confidences?.[j], one), " ");
    i += sign !== "I";
    j += sign !== "D";
  }
  return nodes.length ? nodes : [make("span", { class: "quiet" }, "no words")];
}

// A word of a text: shaded where its confidence is low, and a button where the recording has its time.
function word(written, sign, [start, end], confidence, one) {
  const facts = [];
  if (known(start)) facts.push(`${shown(start, 2)} to ${shown(end, 2)} s`);
  if (known(confidence)) facts.push(`confidence ${shown(confidence, 3)}`);
  const [tag, kind] = { "=": ["span", "right"], S: ["b", "substitution"], I: ["ins", "insertion"] }[sign];
  const playing = one.audio && known(start) ? { "data-start": start, role: "button", tabindex: -1 } : {};
  const element = make(tag, { class: `word ${kind}`, title: facts.join(", ") || null, ...playing }, written);
  if (known(confidence)) element.style.setProperty("--unsure", 1 - confidence);
  return element;
}

function details(one) {
  const facts = [["frames", shown(one.frames)], ["score", shown(one.score, 2)],
    ["confidence of the transcript", shown(one.confidence, 3)]].filter(([, value]) => value);
  const parts = [make("p", { class: "quiet" }, facts.map((fact) => fact.join(" ")).join(" · "))];
  const add = (title, content) => parts.push(make("h3", {}, title), content);
  if (known(one.reference)) add("Reference", make("p", {}, one.reference || "no words"));
  if (one.nbest.length) add("N-best list", nbest(one));
  if (one.lattice) add("Lattice", lattice(one.lattice, one.id));
  return parts;
}

function nbest(one) {
  const scored = known(one.errors), fewest = Math.min(...one.nbest.map((entry) => entry.errors));
  const line = (tag, values, last, kind) => make("tr", { class: kind },
    ...values.filter((value, place) => scored || place !== 1).map((value) => make(tag, {}, value)), last);
  const rows = one.nbest.map((entry, rank) => line("td",
    [shown(rank + 1), shown(entry.errors), shown(entry.posterior, 3), shown(entry.score, 2)],
    make("td", {}, ...aligned(entry, one)), entry.errors === fewest ? "fewest" : null));
  const head = line("th", ["Rank", "Errors", "Posterior", "Score"], make("th", {}, "Words"));
  return make("div", { class: "scroll" }, make("table", { class: "nbest" }, make("thead", {}, head), ...rows));
}

function lattice(drawn, id) {
  if (drawn.note) return make("p", { class: "quiet" }, drawn.note);
  const boxes = drawn.boxes.map(([x, row, width, word, posterior, best, time]) =>
    ({ x, row, width, word, posterior, best, time: `${time} ${drawn.unit}` }));
  const top = Math.min(...boxes.map((box) => box.row)), y = (box) => 34 * (box.row - top) + 28;
  const left = Math.min(...boxes.map((box) => box.x - box.width / 2)) - 12;
  const width = Math.max(...boxes.map((box) => box.x + box.width / 2)) + 12 - left;
  const height = Math.max(...boxes.map(y)) + 40;
  const pen = (posterior, best) =>
    ({ class: best ? "best" : null, "stroke-width": 0.6 + 2 * posterior, "stroke-opacity": 0.35 + 0.65 * posterior });
  const lines = drawn.lines.map(([source, target, posterior, best]) => {
    const a = boxes[source], b = boxes[target], middle = (a.x + b.x) / 2;
    const passes = a.row === b.row && boxes.some((box) => box.row === a.row && box.x > a.x && box.x < b.x);
    const [from, to] = [a, b].map((box) => y(box) - (passes ? 24 : 0)); // over the boxes between
    const d = `M${a.x} ${y(a)}C${middle} ${from} ${middle} ${to} ${b.x} ${y(b)}`;
    return make("path", { ...pen(posterior, best), d });
  });
  const marks = boxes.flatMap((box) => box.word ? [
    make("rect", { ...pen(box.posterior, box.best), x: box.x - box.width / 2, y: y(box) - 12, width: box.width,
      height: 24, rx: 6 }, make("title", {}, `posterior ${shown(box.posterior, 3)}, ${box.time}`)),
    make("text", { x: box.x, y: y(box) + 4 }, box.word),
  ] : [make("circle", { cx: box.x, cy: y(box), r: 4 }), make("text", { x: box.x, y: height - 6 }, box.time)]);
  const frame = { width, height, viewBox: `${left} 0 ${width} ${height}`, role: "img", "aria-label": `Lattice of ${id}` };
  const left_out = drawn.left_out ? `; ${count(drawn.left_out, "less probable word")} left out` : "";
  return make("div", {},
    make("div", { class: "scroll", tabindex: 0 }, make("svg", { class: "lattice", ...frame }, ...lines, ...marks)),
    make("p", { class: "quiet" }, `Blue: the best path. The thicker, the more probable${left_out}.`));
}

// ---- Recordings

const [label, player] = document.querySelector("footer").children;
let playing = null, playingWords = null;

function play(one, words, start) {
  if (playing !== one) player.src = one.audio;
  [playing, playingWords] = [one, words];
  label.parentElement.hidden = false;
  label.textContent = one.id;
  player.currentTime = start;
  player.play().catch(() => {}); // the event "error" follows where the recording cannot be played
}
player.addEventListener("error", () => {
  label.textContent = `The recording of ${playing.id} cannot be played: ${playing.audio.slice(0, 200)}`;
});
player.addEventListener("timeupdate", () => {
  document.querySelector(".now")?.classList.remove("now");
  const words = [...playingWords.querySelectorAll("[data-start]")];
  words.findLast((word) => word.dataset.start <= player.currentTime + 0.01)?.classList.add("now");
});

function playWord(target, one, words) {
  const start = target.closest("[data-start]")?.dataset.start;
  if (start) play(one, words, Number(start));
}

// The words of a transcript are one stop of the Tab key; arrows lead from one to the next, Enter plays.
function onKey(event, one, words) {
  const all = [...words.querySelectorAll("[data-start]")], place = all.indexOf(event.target);
  const step = { ArrowRight: 1, ArrowLeft: -1, Enter: 0, " ": 0 }[event.key], next = all[place + step];
  if (place < 0 || step === undefined || !next) return;
  event.preventDefault();
  if (!step) return playWord(next, one, words);
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

// ---- The page

document.title = `${data.title} – arcbeam report`;
document.querySelector("h1").textContent = data.title;
if (score) {
  showFigures();
  if (data.calibration) showCalibration(data.calibration);
  showLengths(data.lengths);
  showConfusions();
  for (const kind of ["Substitution", "Deletion", "Insertion"]) {
    const example = aligned({ text: "found", signs: kind[0] }, { reference: "said" });
    byId("legend").append(make("span", {}, ...example, kind.toLowerCase()));
  }
}
for (const part of [byId("figures"), byId("plots"), byId("wrong").parentElement]) part.hidden = !score;
if (COLUMNS.some(([name]) => name === "confidence")) {
  const shades = [1, 0.6, 0.2].flatMap((confidence) => [word(shown(confidence, 1), "=", [], confidence, {}), " "]);
  byId("legend").append(make("span", {}, ...shades, "confidence"));
}
showColumns();
byId("search").addEventListener("input", list);
byId("wrong").addEventListener("change", list);
list();
const end = new IntersectionObserver(([seen]) => {
  if (!seen.isIntersecting || added >= listed.length) return;
  addSlice();
  end.unobserve(seen.target); // or it would wait for the end to leave the screen
  end.observe(seen.target);
}, { rootMargin: "800px" });
end.observe(byId("more"));
document.documentElement.dataset.ready = performance.now();

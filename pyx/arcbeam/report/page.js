"use strict";
// Text reaches the page as text nodes and attributes alone, so that no word or id is read as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const utterances = data.utterances, score = data.score;
const SLICE = 200; // utterances that are added at a time, as the reader scrolls
const byId = (id) => document.getElementById(id);
const known = (value) => value !== null && value !== undefined;
const text = (value, digits) => (known(value) ? value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) : "");
const count = (number, thing) => `${text(number)} ${thing}${number === 1 ? "" : "s"}`;
const wordsOf = (words) => (words ? words.split(" ") : []);

function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (known(value)) element.setAttribute(name, value);
  element.append(...children.filter(known));
  return element;
}
function button(label, attributes, onClick) {
  const made = make("button", { type: "button", ...attributes }, ...[label].flat());
  made.addEventListener("click", onClick);
  return made;
}

// ---------------------------------------------------------------------------------------------------- summary

function showFigures() {
  const rate = (errors) => (score.words ? `${text((100 * errors) / score.words, 2)} %` : "undefined");
  const figures = score ? [
    [rate(score.errors), `WER: ${count(score.errors, "error")}, ${count(score.words, "word")}`],
    [text(score.substitutions), "substitutions"], [text(score.deletions), "deletions"], [text(score.insertions), "insertions"],
    [text(score.utterances), `utterances, ${text(score.wrong)} with errors`],
    ...(known(score.oracle_errors) ? [[rate(score.oracle_errors), "oracle WER of n-best lists"]] : []),
  ] : [[text(utterances.length), "utterances"]];
  byId("figures").append(...figures.map(([value, label]) => make("div", {}, make("b", {}, value), make("span", {}, label))));
}

function plot(title, note, content) {
  byId("plots").append(make("div", {}, make("h2", {}, title), make("p", {}, note), content));
}

// A plot whose area goes from (40, 165) to (300, 15); `marks` are on the vertical axis.
function axes(label, marks, ...content) {
  const lines = marks.flatMap(([share, mark]) => [
    draw("path", { d: `M40 ${165 - 150 * share}H300` }), draw("text", { x: 20, y: 169 - 150 * share }, mark)]);
  return draw("svg", { viewBox: "0 0 310 205", role: "img", "aria-label": label }, ...lines, ...content, draw("text", { x: 170, y: 202 }, label));
}

function showCalibration({ words, nce, bins }) {
  const most = Math.max(...bins.map((bin) => bin.words));
  const points = bins.map((bin) => draw("circle",
    { class: "mark", cx: 40 + 260 * bin.confidence, cy: 165 - 150 * bin.right, r: 3 + 8 * Math.sqrt(bin.words / most) },
    draw("title", {}, `confidence ${text(bin.confidence, 2)}: ${text(100 * bin.right, 1)} % of ${count(bin.words, "word")} are right`)));
  plot("Calibration", `Share of right words; normalised cross entropy ${known(nce) ? text(nce, 3) : "undefined"}, ${count(words, "word")}`,
    axes("confidence", [[0, "0"], [0.5, "50"], [1, "100 %"]], draw("path", { class: "diagonal", d: "M40 165L300 15" }),
      ...[0, 0.5, 1].map((share) => draw("text", { x: 40 + 260 * share, y: 183 }, share)), ...points));
}

function showLengths(groups) {
  const rates = groups.map((group) => group.errors / Math.max(group.words, 1)), top = Math.max(...rates, 0.01), step = 260 / groups.length;
  const bars = groups.flatMap(({ least, most, ...group }, place) => {
    const height = (150 * rates[place]) / top, x = 40 + step * (place + 0.5);
    return [
      draw("rect", { class: "mark", x: x - step * 0.3, y: 165 - height, width: step * 0.6, height, rx: 2 },
        draw("title", {}, `${count(group.errors, "error")} in ${count(group.words, "word")} of ${count(group.utterances, "utterance")}`)),
      draw("text", { x, y: 183 }, known(most) ? (most > least ? `${least}–${most}` : least) : `${least}+`),
    ];
  });
  const marks = [0, 0.5, 1].map((share) => [share, `${text(100 * top * share, 1)}${share === 1 ? " %" : ""}`]);
  plot("Errors by length", "Word error rate of shorter and longer utterances", axes("words of the reference", marks, ...bars));
}

function showConfusions() {
  const items = data.confusions.map((one) => {
    const [said, found] = one.pair;
    one.text = said && found ? `${said} → ${found}` : said ? `${said} deleted` : `${found} inserted`;
    one.button = button([make("span", {}, text(one.count)), one.text], { "aria-pressed": false }, () => {
      chosen?.button.setAttribute("aria-pressed", false);
      chosen = chosen === one ? null : one;
      one.button.setAttribute("aria-pressed", chosen === one);
      list();
    });
    return make("li", {}, one.button);
  });
  plot("Most frequent errors", items.length ? "Choose one to see its utterances" : "None", make("ul", { id: "confusions" }, ...items));
}

// ---------------------------------------------------------------------------------------------------- table

const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
utterances.forEach((one, place) => {
  const words = wordsOf(one.reference ?? one.text).length;
  one.sorted = {
    id: one.id, rate: known(one.errors) ? (100 * one.errors) / Math.max(words, 1) : null, errors: one.errors, words,
    confidence: mean(one.confidences.filter(known)), seconds: one.frame_shift ? one.frames * one.frame_shift : null,
  };
  one.place = place;
  one.searched = `${one.id} ${one.text} ${one.reference ?? ""}`.toLowerCase();
});
const COLUMNS = Object.entries({
  id: ["Utterance"], rate: ["WER %", 1], errors: ["Errors", 0], words: ["Words", 0, `of the ${score ? "reference" : "transcript"}`],
  confidence: ["Conf.", 2, "mean confidence of the words"], seconds: ["Sec.", 1, "seconds"],
}).filter(([name]) => utterances.some((one) => known(one.sorted[name])));
let order = null, ascending = true, chosen = null, listed = [], added = 0;

function showColumns() {
  for (const [name, [title, , hint]] of COLUMNS) {
    const sort = () => {
      ascending = order === name ? !ascending : name === "id" || name === "confidence"; // errors: the most first
      order = name;
      for (const head of byId("utterances").querySelectorAll("th[aria-sort]")) head.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      list();
    };
    const head = make("th", { scope: "col" }, button(title, { title: hint }, sort));
    byId("utterances").tHead.rows[0].append(head);
  }
}

// Lists the utterances that are searched for, in the order of the chosen column; those without a value come last.
function list() {
  const query = byId("search").value.trim().toLowerCase(), wrong = byId("wrong").checked;
  listed = utterances.filter((one) =>
    one.searched.includes(query) && (!wrong || one.errors > 0) && (!chosen || chosen.utterances.includes(one.place)));
  const compare = (a, b) => (known(b) - known(a)) || (a < b ? -1 : a > b ? 1 : 0) * (ascending ? 1 : -1);
  if (order) listed.sort((one, other) => compare(one.sorted[order], other.sorted[order]));
  byId("shown").textContent = `${listed.length === utterances.length ? "" : `${text(listed.length)} of `}${count(utterances.length, "utterance")}${chosen ? ` (${chosen.text})` : ""}`;
  for (const body of [...byId("utterances").tBodies]) body.remove();
  added = 0;
  addSlice();
}

function addSlice() {
  byId("utterances").append(...listed.slice(added, (added += SLICE)).map(row));
}

function row(one) {
  const words = make("p", { class: "words" }, ...aligned(one.text, one, one));
  if (one.audio) {
    words.prepend(button("▶", { class: "play", "aria-label": `Play ${one.id}` }, () => play(one, words, 0)));
    words.querySelector("[data-start]")?.setAttribute("tabindex", 0);
    words.addEventListener("click", (event) => playWord(event.target, one, words));
    words.addEventListener("keydown", (event) => onKey(event, one, words));
  }
  if (score && !known(one.signs)) words.append(make("span", { class: "quiet" }, "(no reference)"));
  const toggle = button(one.id, { "aria-expanded": false }, () => {
    const open = toggle.getAttribute("aria-expanded") === "false";
    toggle.setAttribute("aria-expanded", open);
    if (open) body.append(make("tr", { class: "details" }, make("td", { class: "whole", colspan: COLUMNS.length }, ...details(one))));
    else body.lastChild.remove();
  });
  const cells = COLUMNS.slice(1).map(([name, [, digits]]) => make("td", {}, text(one.sorted[name], digits)));
  const body = make("tbody", {}, make("tr", {}, make("td", {}, toggle), ...cells),
    make("tr", {}, make("td", { class: "whole", colspan: COLUMNS.length }, words)));
  return body;
}

// ---------------------------------------------------------------------------------------------------- utterance

// The words of a text along its alignment with the reference of `one`; `of` has the alignment, and what words have.
function aligned(found, of, one) {
  const said = wordsOf(one.reference), words = wordsOf(found), nodes = [];
  let i = 0, j = 0;
  for (const sign of of.signs ?? "=".repeat(words.length)) {
    if (sign === "S" || sign === "D") nodes.push(make("del", { class: sign === "S" ? "substitution" : "deletion" }, said[i]), " ");
    if (sign !== "D") nodes.push(word(words[j], sign, of.times?.[j] ?? [], of.confidences?.[j], one), " "), j++;
    if (sign !== "I") i++;
  }
  return nodes.length ? nodes : [make("span", { class: "quiet" }, "no words")];
}

// A word of a text: shaded where its confidence is low, and a button where the recording has its time.
function word(written, sign, [start, end], confidence, one) {
  const title = [known(start) ? `${text(start, 2)} to ${text(end, 2)} s` : null, known(confidence) ? `confidence ${text(confidence, 3)}` : null];
  const [tag, kind] = { "=": ["span", ""], S: ["b", " substitution"], I: ["ins", " insertion"] }[sign];
  const element = make(tag, { class: `word${kind}`, title: title.filter(known).join(", ") || null }, written);
  if (known(confidence)) element.style.setProperty("--unsure", 1 - confidence);
  return one.audio && known(start) ? fill(element, { "data-start": start, role: "button", tabindex: -1 }, []) : element;
}

function details(one) {
  const facts = { frames: text(one.frames), score: text(one.score, 2), "confidence of the transcript": text(one.confidence, 3) };
  const parts = [make("p", { class: "quiet" }, Object.entries(facts).filter(([, value]) => value).map((fact) => fact.join(" ")).join(" · "))];
  const add = (title, content) => parts.push(make("h3", {}, title), content);
  if (known(one.reference)) add("Reference", make("p", {}, one.reference || "no words"));
  if (one.nbest.length) add("N-best list", nbest(one));
  if (one.lattice) add("Lattice", lattice(one.lattice, one.id));
  return parts;
}

function nbest(one) {
  const titles = ["Rank", ...(known(one.errors) ? ["Errors"] : []), "Posterior", "Score", "Words"];
  const fewest = Math.min(...one.nbest.map((entry) => entry.errors));
  const rows = one.nbest.map((entry, rank) => {
    const values = [text(rank + 1), ...(known(one.errors) ? [text(entry.errors)] : []), text(entry.posterior, 3), text(entry.score, 2)];
    return make("tr", { class: entry.errors === fewest ? "fewest" : null }, ...values.map((value) => make("td", {}, value)),
      make("td", {}, ...aligned(entry.text, entry, one)));
  });
  const head = make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title)));
  return make("div", { class: "scroll" }, make("table", { class: "nbest" }, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function lattice(drawn, id) {
  if (drawn.note) return make("p", { class: "quiet" }, drawn.note);
  const boxes = drawn.boxes.map(([x, row, width, word, posterior, best, time]) => ({ x, row, width, word, posterior, best, time }));
  const top = Math.min(...boxes.map((box) => box.row)), y = (box) => 34 * (box.row - top) + 28;
  const left = Math.min(...boxes.map((box) => box.x - box.width / 2)) - 12, right = Math.max(...boxes.map((box) => box.x + box.width / 2)) + 12;
  const height = Math.max(...boxes.map(y)) + 40;
  const pen = (posterior, best) => ({ class: best ? "best" : null, "stroke-width": 0.6 + 2 * posterior, "stroke-opacity": 0.35 + 0.65 * posterior });
  const lines = drawn.lines.map(([source, target, posterior, best]) => {
    const a = boxes[source], b = boxes[target], middle = (a.x + b.x) / 2;
    const rise = a.row === b.row && boxes.some((box) => box.row === a.row && box.x > a.x && box.x < b.x) ? 24 : 0; // over boxes between
    return draw("path", { ...pen(posterior, best), d: `M${a.x} ${y(a)}C${middle} ${y(a) - rise} ${middle} ${y(b) - rise} ${b.x} ${y(b)}` });
  });
  const marks = boxes.flatMap((box) => box.word ? [
    draw("rect", { ...pen(box.posterior, box.best), x: box.x - box.width / 2, y: y(box) - 12, width: box.width, height: 24, rx: 6 },
      draw("title", {}, `posterior ${text(box.posterior, 3)}, ${box.time} ${drawn.unit}`)),
    draw("text", { x: box.x, y: y(box) + 4 }, box.word),
  ] : [draw("circle", { cx: box.x, cy: y(box), r: 4 }), draw("text", { x: box.x, y: height - 6 }, `${box.time} ${drawn.unit}`)]);
  const svg = { class: "lattice", width: right - left, height, viewBox: `${left} 0 ${right - left} ${height}`, role: "img", "aria-label": `Lattice of ${id}` };
  const left_out = drawn.left_out ? `; ${count(drawn.left_out, "less probable word")} left out` : "";
  return make("div", {}, make("div", { class: "scroll", tabindex: 0 }, draw("svg", svg, ...lines, ...marks)),
    make("p", { class: "quiet" }, `Blue: the best path. The thicker, the more probable${left_out}.`));
}

// ---------------------------------------------------------------------------------------------------- recordings

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
  const begun = [...playingWords.querySelectorAll("[data-start]")].filter((word) => word.dataset.start <= player.currentTime + 0.01);
  begun.at(-1)?.classList.add("now");
});

function playWord(target, one, words) {
  const word = target.closest("[data-start]");
  if (word) play(one, words, Number(word.dataset.start));
}

// The words of a transcript are one stop of the Tab key; arrows lead from one to the next, Enter plays.
function onKey(event, one, words) {
  const word = event.target.closest("[data-start]");
  if (!word || !["ArrowRight", "ArrowLeft", "Enter", " "].includes(event.key)) return;
  event.preventDefault();
  if (!event.key.startsWith("Arrow")) return playWord(word, one, words);
  const all = [...words.querySelectorAll("[data-start]")], next = all[all.indexOf(word) + (event.key === "ArrowRight" ? 1 : -1)];
  if (!next) return;
  word.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

// ---------------------------------------------------------------------------------------------------- page

document.title = `${data.title} – arcbeam report`;
document.querySelector("h1").textContent = data.title;
showFigures();
if (score) {
  if (data.calibration) showCalibration(data.calibration);
  showLengths(data.lengths);
  showConfusions();
  for (const [sign, name] of [["S", "substitution"], ["D", "deletion"], ["I", "insertion"]])
    byId("legend").append(make("span", {}, ...aligned("found", { signs: sign }, { reference: "said" }), name));
}
byId("wrong").parentElement.hidden = byId("plots").hidden = !score;
if (COLUMNS.some(([name]) => name === "confidence")) {
  const shades = [1, 0.6, 0.2].map((confidence) => word(text(confidence, 1), "=", [], confidence, {}));
  byId("legend").append(make("span", {}, ...shades.flatMap((shade) => [shade, " "]), "confidence"));
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

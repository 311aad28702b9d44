// The page's script: charts, the threshold slider, and browsing the examples.
// Text of a corpus is hostile: the script only sets it as the text of a node.

const data = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const views = new Map();

const look = (isDark) => {
  const narrow = innerWidth < 600, labelLimit = narrow ? 80 : 180;
  const legend = { orient: "bottom", columns: narrow ? 2 : 6, labelLimit: narrow ? 120 : 150 };
  const fore = isDark ? "#e8e8e8" : "#1a1a1a", line = isDark ? "#3a3f47" : "#d8d8d8";
  const words = { labelColor: fore, titleColor: fore };
  return {
    background: "transparent", title: { color: fore, anchor: "start" }, view: { stroke: line },
    axis: { ...words, gridColor: line, domainColor: line, tickColor: line, labelLimit },
    legend: { ...words, ...legend },
    header: words, rule: { color: fore }, text: { color: fore },
  };
};

// Draws charts one by one, so that the page stays usable meanwhile.
async function draw() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    const name = place.dataset.chart, run = place.closest("[data-run]");
    const options = { ast: true, renderer: "svg", actions: false, config: look(dark.matches) };
    views.get(name)?.finalize();
    views.set(name, (await vegaEmbed(place, data.charts[name], options)).view);
    if (run) redraw(run);
    await new Promise((next) => setTimeout(next));
  }
  document.documentElement.dataset.drawn = dark.matches ? "dark" : "light";
}

// Text made safe to display: bidirectional controls become visible names, and other control
// characters the replacement character.
const harmless = (text) => text
  .replace(/[\u202a-\u202e\u2066-\u2069]/g, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase()}⟩`)
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, "\ufffd");

const node = (name, attributes = {}, ...inside) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
};

const number = (x) => Number(x).toLocaleString("en", { maximumFractionDigits: 0 });
const score = (x) => Number(x).toLocaleString("en", { maximumSignificantDigits: 5 });
const percent = (x) => `${(100 * x).toLocaleString("en", { maximumFractionDigits: 2 })} %`;

// A word, or one character in scripts without spaces (as in `kernels/tokens.py`).
const ALONE = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}";
const TOKEN = new RegExp(`[${ALONE}]|(?:(?![${ALONE}])[\\p{L}\\p{N}\\p{M}_])+`, "gu");

// The text with every n-gram that raised or lowered the score marked, longest first.
function marked(text, effects) {
  const shown = node("p", { class: "text short", dir: "auto" });
  const known = new Map(effects.map((e) => [e.part, e.effect]));
  const longest = Math.max(0, ...effects.map((e) => e.part.split(" ").length));
  const words = [...text.matchAll(TOKEN)];
  let at = 0;
  for (let i = 0; i < words.length; i++) {
    for (let n = Math.min(longest, words.length - i); n > 0; n--) {
      const effect = known.get(words.slice(i, i + n).map((w) => w[0].normalize("NFC").toLowerCase()).join(" "));
      if (effect === undefined) continue;
      const last = words[i + n - 1], end = last.index + last[0].length;
      const label = `${effect > 0 ? "raised" : "lowered"} the score by ${score(Math.abs(effect))}`;
      shown.append(harmless(text.slice(at, words[i].index)), node("mark",
        { class: effect > 0 ? "up" : "down", title: label }, harmless(text.slice(words[i].index, end))));
      at = end;
      i += n - 1;
      break;
    }
  }
  shown.append(harmless(text.slice(at)));
  return shown;
}

function card(run, example) {
  const place = `${example.source}, row ${example.row}, segment ${example.segment}`;
  const head = node("p", { class: "soft" }, node("strong", {}, score(example.score)), " · ",
    example.selected ? "selected" : "not selected", " · ", node("bdi", {}, harmless(place)));
  const text = marked(example.text, example.effects || []);
  const shown = node("article", {}, head, text);
  if (example.characters > [...example.text].length) {
    shown.append(node("p", { class: "soft" }, `… of ${number(example.characters)} characters`));
  }
  if (example.text.length < 400 && example.text.split("\n").length < 7) {
    text.classList.remove("short");
    return withNearest(shown, run, example);
  }
  const whole = node("button", { type: "button", "aria-expanded": "false" }, "whole text");
  whole.addEventListener("click", () => {
    const short = text.classList.toggle("short");
    whole.setAttribute("aria-expanded", String(!short));
  });
  shown.append(whole);
  return withNearest(shown, run, example);
}

function withNearest(shown, run, example) {
  if (example.nearest.length) {
    const list = node("ul");
    for (const [place, cosine] of example.nearest) {
      list.append(node("li", {}, `${cosine.toFixed(2)} `,
        node("span", { class: "text", dir: "auto" }, harmless(run.targets[place].text))));
    }
    shown.append(node("details", {}, node("summary", {}, "Nearest target texts (cosine)"), list));
  }
  return shown;
}

// The threshold: what it selects from which source, and examples on both sides of it.
function move(section) {
  const run = data.runs[section.id], slider = section.querySelector("input[type=range]");
  if (!slider) return;
  const k = Number(slider.value), cuts = run.cuts, threshold = cuts.threshold[k];
  const said = `${percent(cuts.share[k])} of the segments: ${number(cuts.segments[k])} segments, about ` +
    `${number(cuts.tokens[k])} word pieces, scores of ${score(threshold)} and above` +
    (k !== cuts.own ? "" : cuts.segments[k] === run.taken ? " (this run's own threshold)"
      : ` (this run's own threshold; ties at this score are cut to the size asked for, ` +
        `${number(run.taken)} segments in total)`);
  section.querySelector("[data-said]").textContent = said;
  slider.setAttribute("aria-valuetext", said);
  const words = cuts.words_by_source[k];
  const rows = run.sources.map((s, i) => [s.name, percent(words[i] / (cuts.tokens[k] || 1)),
    number(words[i]), number(cuts.by_source[k][i]), number(s.segments)]);
  section.querySelector("[data-by-source]").replaceChildren(
    tabled(["source", "share of words", "word pieces", "segments", "of"], rows));
  const above = run.examples.filter((e) => e.score >= threshold).slice(-6).reverse();
  const below = run.examples.filter((e) => e.score < threshold).slice(0, 6);
  for (const [name, examples] of [["above", above], ["below", below]]) {
    const cards = examples.map((e) => card(run, e));
    section.querySelector(`[data-side=${name}]`)?.replaceChildren(
      ...(cards.length ? cards : [node("p", { class: "soft" }, "No stored examples here.")]));
  }
  redraw(section);
}

function tabled(columns, rows) {
  const cell = (name, i, text) => node(name, i ? { class: "n" } : {}, harmless(text));
  const line = (name, texts) => node("tr", {}, ...texts.map((text, i) => cell(name, i, text)));
  return node("table", {}, node("thead", {}, line("th", columns)),
    node("tbody", {}, ...rows.map((row) => line("td", row))));
}

// Updates the charts that depend on the threshold.
function redraw(section) {
  const run = data.runs[section.id], slider = section.querySelector("input[type=range]");
  if (!slider) return;
  const k = Number(slider.value), cuts = run.cuts;
  views.get(`${section.id}-scores`)?.signal("cut", cuts.threshold[k]).runAsync();
  const corpus = run.sources.reduce((n, s) => n + s.tokens, 0) || 1;
  const own = cuts.own === null && !slider.dataset.moved; // sampled by weight: the actual selection
  const selected = run.sources.map((s, i) => own ? s.selected_tokens : cuts.words_by_source[k][i]);
  const whole = selected.reduce((n, of) => n + of, 0) || 1;
  const rows = run.sources.flatMap((s, i) => [
    { source: harmless(s.name), of: "corpus", share: s.tokens / corpus },
    { source: harmless(s.name), of: "selected", share: selected[i] / whole }]);
  views.get(`${section.id}-composition`)?.data("composition", rows).runAsync();
}

function browse(section) {
  const run = data.runs[section.id], list = section.querySelector("[data-list]");
  if (!list) return;
  const [words, source, taken] = ["words", "source", "taken"].map(
    (name) => section.querySelector(`[data-filter=${name}]`));
  let found = [];
  const add = (count) => {
    const at = list.childElementCount;
    list.append(...found.slice(at, at + count).map((e) => card(run, e)));
    more.textContent = `show more (${number(found.length - list.childElementCount)} left)`;
    more.hidden = list.childElementCount === found.length;
    return list.children[at];
  };
  const more = node("button", { type: "button", "data-more": "" });
  more.addEventListener("click", () => {
    const first = add(20);
    first.tabIndex = -1;
    first.focus();
  });
  list.after(more);
  const show = () => {
    const plain = (text) => text.normalize("NFC").toLowerCase();
    const wanted = plain(words.value).split(/\s+/).filter(Boolean);
    found = run.examples.filter((e) => (!source.value || e.source === source.value)
      && (!taken.value || String(e.selected) === taken.value)
      && wanted.every((word) => plain(e.text).includes(word)));
    list.replaceChildren();
    add(10);
    section.querySelector("[data-found]").textContent = `${found.length} of ${run.examples.length}`;
  };
  for (const filter of [words, source, taken]) {
    filter.addEventListener("input", show);
  }
  show();
}

for (const section of document.querySelectorAll("[data-run]")) {
  section.querySelector("input[type=range]")?.addEventListener("input", (e) => {
    e.target.dataset.moved = "yes";
    move(section);
  });
  browse(section);
  move(section);
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const command = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "copied";
    } catch { // not allowed: select the command, to be copied by hand
      getSelection().selectAllChildren(command);
    }
  });
}
dark.addEventListener("change", draw);
draw();

"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const root = document.documentElement;
  const drawn = new Set();
  const logarithmic = new Set();
  const touch = matchMedia("(pointer: coarse)").matches;

  // Colours are written as var(--name), so that one figure serves both themes.
  function coloured(value, styles, key) {
    if (Array.isArray(value)) return value.map((each) => coloured(each, styles, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, coloured(each, styles, name)]));
    }
    if (typeof value === "string" && /color$/.test(key)) {
      return value.replace(/^var\((--[a-z0-9-]+)\)$/, (_, name) => styles.getPropertyValue(name).trim());
    }
    return value;
  }

  function draw(plot) {
    const figure = figures[plot.id];
    const styles = getComputedStyle(root);
    // On a touch screen a finger on a plot scrolls the page instead of zooming.
    const layout = { ...coloured(figure.layout, styles, ""), dragmode: touch ? false : "zoom", autosize: true };
    if (logarithmic.has(plot)) layout.yaxis.type = "log";
    // On a narrow screen a long legend leaves no room; the table of runs shows the same colours.
    if (plot.clientWidth < 480 && figure.data.length > 3) layout.showlegend = false;
    drawn.add(plot);
    return Plotly.react(plot, coloured(figure.data, styles, ""), layout, {
      responsive: true, displaylogo: false, displayModeBar: touch ? false : "hover", doubleClick: "reset",
      modeBarButtons: [["toImage", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
      toImageButtonOptions: { filename: plot.id },
    });
  }

  // Plots of a hidden tab have no size: they are drawn when they are first seen.
  function drawVisible() {
    for (const plot of document.querySelectorAll(".plot")) {
      if (plot.offsetParent === null) continue;
      if (drawn.has(plot)) Plotly.Plots.resize(plot); else draw(plot);
    }
  }

  for (const scale of document.querySelectorAll(".scale")) {
    const plot = document.getElementById(scale.dataset.plot);
    scale.hidden = false;
    scale.addEventListener("click", () => {
      if (!logarithmic.delete(plot)) logarithmic.add(plot);
      scale.setAttribute("aria-pressed", String(logarithmic.has(plot)));
      draw(plot);
    });
  }

  // Theme: that of the system, until the reader chooses.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  let chosen = null;
  try { chosen = localStorage.getItem("nestbo-theme"); } catch { /* not allowed for files: it is not remembered */ }
  function theme() {
    const isDark = chosen ? chosen === "dark" : dark.matches;
    root.dataset.theme = isDark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(isDark));
    for (const plot of drawn) draw(plot);
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("nestbo-theme", chosen); } catch { /* as above */ }
    theme();
  });
  dark.addEventListener("change", theme);
  theme();

  // Tabs, as the ARIA practices describe them: arrows, Home and End move and select.
  const tabs = [...document.querySelectorAll("[role=tab]")];
  function select(tab, focus) {
    for (const each of tabs) {
      const isIt = each === tab;
      each.setAttribute("aria-selected", String(isIt));
      each.tabIndex = isIt ? 0 : -1;
      document.getElementById(each.getAttribute("aria-controls")).hidden = !isIt;
    }
    if (focus) tab.focus();
    tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    drawVisible();
  }
  tabs.forEach((tab, place) => {
    tab.addEventListener("click", () => select(tab, false));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      select(tabs[(to + tabs.length) % tabs.length], true);
    });
  });

  // Tables of parameters: sorted by a click, searched, and short at first.
  for (const section of document.querySelectorAll(".filtered")) {
    const table = section.querySelector("table");
    const body = table.tBodies[0];
    const search = section.querySelector("input");
    const more = section.querySelector(".more");
    const found = section.querySelector(".found");
    const short = Number(table.dataset.shown);
    const label = more && more.textContent;
    let all = false;
    function show() {
      const wanted = search.value.trim().toLowerCase();
      let fitting = 0, shown = 0;
      for (const row of body.rows) {
        const fits = !wanted || row.cells[0].dataset.v.toLowerCase().includes(wanted);
        fitting += fits;
        row.hidden = !fits || (!all && fitting > short);
        shown += !row.hidden;
      }
      found.textContent = `${shown} of ${wanted ? `${fitting} found` : body.rows.length} shown`;
      if (more) {
        more.textContent = all ? `Show ${short}` : label;
        more.hidden = Boolean(wanted) && fitting <= short;
      }
    }
    search.addEventListener("input", show);
    if (more) more.addEventListener("click", () => { all = !all; show(); });
    const heads = [...table.tHead.rows[0].cells];
    const words = new Intl.Collator("en", { numeric: true });
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const each of heads) each.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.v;
      const compare = column === 0 ? (a, b) => words.compare(key(a), key(b)) : (a, b) => Number(key(a)) - Number(key(b));
      body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * compare(a, b)));
      show();
    }));
    show();
  }

  if (tabs.length) select(tabs[0], false); else drawVisible();
})();

// The page: tabs, colours, what figures show. Figures are drawn when they come into view.
"use strict";
(function () {
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const root = document.documentElement;
  const drawn = new Map(); // identity of the figures -> the Bokeh document
  const picked = {}; // picker -> index
  let shown = null; // [start, end] of the time that is shown, or null for all

  // ---- colours ----------------------------------------------------------------------------------------------------

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 640px)");
  const touch = window.matchMedia("(pointer: coarse)");

  function remembered(value) {
    try { // a page from a file may have no storage
      if (value === undefined) return localStorage.getItem("stowplan-scheme");
      localStorage.setItem("stowplan-scheme", value);
    } catch (error) { /* it is then forgotten */ }
    return value || null;
  }

  function setScheme(name) {
    if (name === "auto") delete root.dataset.scheme; else root.dataset.scheme = name;
    all("[data-theme]").forEach(button => button.setAttribute("aria-pressed", String(button.dataset.theme === name)));
    drawn.forEach(paint);
  }

  function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }

  // What of a figure is not its data: text, axes, grids, the line under the pointer.
  function paint(figures) {
    const text = colour("--text"), soft = colour("--soft"), line = colour("--line"), grid = colour("--grid");
    const small = narrow.matches ? "9px" : "11px";
    for (const plot of figures.roots()) {
      for (const model of plot.references()) {
        if (model.type.endsWith("Axis")) {
          model.setv({axis_label_text_color: soft, major_label_text_color: soft, axis_label_text_font_size: "11px",
            axis_label_text_font_style: "normal", major_label_text_font_size: small, major_tick_line_color: line});
          if (model.axis_line_color !== null) model.axis_line_color = line;
        } else if (model.type === "Grid") {
          model.grid_line_color = grid;
        } else if (model.type === "Span" && model.name === "cursor") {
          model.line_color = text;
        }
      }
    }
  }

  dark.addEventListener("change", () => drawn.forEach(paint));
  narrow.addEventListener("change", () => drawn.forEach(paint));

  // ---- drawing ----------------------------------------------------------------------------------------------------

  const waiting = new IntersectionObserver(entries => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target.dataset.figures);
  }, {rootMargin: "600px"});

  function draw(identity) {
    if (drawn.has(identity)) return;
    const places = all(`[data-figures="${identity}"]`);
    places.forEach(place => waiting.unobserve(place));
    const {document: json, roots} = JSON.parse(document.getElementById(identity).textContent);
    const figures = Bokeh.require("document").Document.from_json(json);
    drawn.set(identity, figures);
    paint(figures);
    for (const plot of figures.roots()) {
      // On a touch screen a finger scrolls the page; the buttons zoom.
      if (touch.matches) plot.toolbar.active_drag = null;
    }
    follow(figures);
    Object.keys(picked).forEach(name => pick(figures, name));
    const elements = places.map(() => null);
    figures.roots().forEach(plot => {
      const index = roots.indexOf(plot.id);
      elements[index] = places.find(place => place.dataset.root === String(index));
    });
    const standing = figures.roots().map(plot => elements[roots.indexOf(plot.id)]);
    Bokeh.embed.add_document_standalone(figures, standing[0], standing, false);
    places.forEach(place => place.classList.add("drawn"));
  }

  // ---- time -------------------------------------------------------------------------------------------------------

  function clocks(figures) {
    const found = new Set();
    for (const plot of figures.roots()) if (plot.x_range.name === "time") found.add(plot.x_range);
    return found;
  }

  let following = false;

  function follow(figures) {
    for (const range of clocks(figures)) {
      if (shown) [range.start, range.end] = shown;
      const changed = () => {
        if (following) return;
        following = true;
        shown = [range.start, range.end];
        drawn.forEach(others => clocks(others).forEach(other => {
          if (other !== range) other.setv({start: range.start, end: range.end});
        }));
        following = false;
      };
      range.properties.start.change.connect(changed);
      range.properties.end.change.connect(changed);
    }
  }

  function move(action) {
    let first = null;
    drawn.forEach(figures => clocks(figures).forEach(range => { first = first || range; }));
    if (!first) return;
    const [least, most] = first.bounds;
    let {start, end} = first;
    const size = end - start, middle = (start + end) / 2;
    if (action === "all") [start, end] = [least, most];
    if (action === "in" || action === "out") {
      const half = Math.max(size * (action === "in" ? 0.25 : 1), 30000);
      [start, end] = [middle - half, middle + half];
    }
    if (action === "back" || action === "on") {
      const step = (action === "on" ? 1 : -1) * size / 2;
      const to = Math.min(Math.max(start + step, least), most - size);
      [start, end] = [to, to + size];
    }
    first.setv({start: Math.max(start, least), end: Math.min(end, most)});
  }

  all("[data-time]").forEach(button => button.addEventListener("click", () => move(button.dataset.time)));

  // ---- pickers ----------------------------------------------------------------------------------------------------

  function pick(figures, name) {
    const index = picked[name];
    for (const plot of figures.roots()) {
      for (const tag of plot.tags) {
        if (tag && tag.picker === name && tag.tops[index] !== undefined) {
          plot.y_range.end = tag.tops[index] > 0 ? tag.tops[index] * 1.06 : 1;
        }
      }
      for (const renderer of plot.renderers) {
        const mine = renderer.tags.find(tag => typeof tag === "string" && tag.startsWith(`${name}:`));
        if (mine) renderer.visible = mine === `${name}:${index}`;
      }
    }
  }

  all("[data-picker]").forEach(select => select.addEventListener("change", () => {
    const name = select.dataset.picker;
    picked[name] = Number(select.value);
    all(`[data-picker="${name}"]`).forEach(other => { other.value = select.value; });
    drawn.forEach(figures => pick(figures, name));
  }));

  // ---- tabs -------------------------------------------------------------------------------------------------------

  function open(tab) {
    const tabs = all('[role="tab"]', tab.parentElement);
    for (const one of tabs) {
      const mine = one === tab;
      one.setAttribute("aria-selected", String(mine));
      one.tabIndex = mine ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !mine;
    }
  }

  function openEverywhere(tab) {
    const group = tab.closest(".tabs").dataset.group;
    const before = tab.getBoundingClientRect().top;
    for (const set of all(".tabs")) {
      if (set.dataset.group !== group) continue;
      const same = set.contains(tab) ? tab : all('[role="tab"]', set.firstElementChild).find(one => one.textContent === tab.textContent);
      if (same) open(same);
    }
    // What stands above may have changed its height: the tab stays where it was.
    window.scrollBy({top: tab.getBoundingClientRect().top - before, behavior: "instant"});
  }

  all('[role="tab"]').forEach(tab => {
    tab.addEventListener("click", () => openEverywhere(tab));
    tab.addEventListener("keydown", event => {
      const tabs = all('[role="tab"]', tab.parentElement);
      const at = tabs.indexOf(tab);
      const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs[(to + tabs.length) % tabs.length];
      next.focus();
      openEverywhere(next);
    });
  });

  // ---- pages of nodes ---------------------------------------------------------------------------------------------

  all(".pager").forEach(pager => {
    const place = pager.parentElement.querySelector(".plot");
    const size = Number(pager.dataset.size);
    let page = 0;

    function turn() {
      draw(place.dataset.figures);
      const plot = drawn.get(place.dataset.figures).roots()[0];
      const data = plot.renderers.find(renderer => renderer.name === "nodes").data_source.data;
      const get = name => data instanceof Map ? data.get(name) : data[name];
      const filters = all("[data-filter]", pager).filter(select => select.selectedIndex > 0);
      const labels = Array.from(get("label")).filter((_, index) =>
        filters.every(select => get(select.dataset.filter)[index] === select.value));
      const pages = Math.max(1, Math.ceil(labels.length / size));
      page = Math.min(Math.max(page, 0), pages - 1);
      const mine = labels.slice(page * size, (page + 1) * size);
      const tag = plot.tags.find(one => one && one.pager);
      plot.y_range.factors = mine.slice().reverse();
      plot.height = tag.around + tag.row * Math.max(mine.length, 4);
      const from = labels.length ? page * size + 1 : 0;
      pager.querySelector(".page-words").textContent = `${from} to ${page * size + mine.length} of ${labels.length} nodes`;
    }

    all("[data-page]", pager).forEach(button => button.addEventListener("click", () => { page += Number(button.dataset.page); turn(); }));
    all("[data-filter]", pager).forEach(select => select.addEventListener("change", () => { page = 0; turn(); }));
    const options = all("[data-filter]", pager).length;
    const words = pager.querySelector(".page-words");
    const total = Number(pager.dataset.total);
    words.textContent = `1 to ${Math.min(size, total)} of ${total} nodes`;
    if (total <= size && options) all("[data-page]", pager).forEach(button => { button.disabled = true; });
  });

  // ---- the rest ---------------------------------------------------------------------------------------------------

  all("[data-theme]").forEach(button => button.addEventListener("click", () => {
    remembered(button.dataset.theme);
    setScheme(button.dataset.theme);
  }));
  setScheme(remembered() || "auto");
  window.addEventListener("beforeprint", () => {
    all(".plot").filter(place => place.offsetParent !== null).forEach(place => draw(place.dataset.figures));
    const before = root.dataset.scheme;
    setScheme("light");
    window.addEventListener("afterprint", () => setScheme(before || "auto"), {once: true});
  });
  all(".plot").forEach(place => waiting.observe(place));

  const links = new Map(all("nav a").map(link => [link.getAttribute("href").slice(1), link]));
  const reading = new IntersectionObserver(entries => {
    for (const entry of entries) links.get(entry.target.id).classList.toggle("here", entry.isIntersecting);
  }, {rootMargin: "-60px 0px -70% 0px"});
  all("main > section").forEach(part => reading.observe(part));

  window.stowplan = {drawn, move, draw}; // for tests and the curious
})();

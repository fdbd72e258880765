"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  const theme = document.getElementById("theme");
  const dark = () => document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => { theme.textContent = dark() ? "Light colors" : "Dark colors"; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();

  // Escape hides a formula (WCAG 1.4.13) until the pointer or the focus returns.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") all(".has-tip:hover, .has-tip:focus-within").forEach((item) => item.classList.add("quiet"));
  });
  for (const item of all(".has-tip")) {
    for (const name of ["mouseenter", "focusin"]) item.addEventListener(name, () => item.classList.remove("quiet"));
    // The tooltip of a table heading would be clipped by the scrolling table, so it is positioned on the page.
    const tip = item.matches("th") && item.querySelector(".tip");
    if (tip) for (const name of ["mouseenter", "focusin"]) item.addEventListener(name, () => {
      const box = item.getBoundingClientRect();
      tip.style.position = "fixed";
      tip.style.top = `${box.bottom}px`;
      tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - 260))}px`;
    });
  }

  for (const chart of all("figure.chart")) {
    const canvas = chart.querySelector(".canvas");
    const reading = chart.querySelector(".reading");
    const marks = all('[role="graphics-symbol"][aria-label]', canvas);
    const visible = () => all(".drawing", canvas).find((drawing) => drawing.getClientRects().length);
    let at = null;
    const shown = () => {
      const drawing = visible();
      return marks.filter((mark) => drawing.contains(mark) && !mark.closest(".off"));
    };
    const show = (mark) => {
      if (at) at.classList.remove("at");
      at = mark;
      if (at) at.classList.add("at");
      reading.textContent = at ? at.getAttribute("aria-label") : "";
    };
    const middle = (mark) => {
      const box = mark.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + box.height / 2];
    };
    canvas.addEventListener("pointermove", (event) => {
      let best = null, least = Infinity;
      for (const mark of shown()) {
        const [x, y] = middle(mark);
        const distance = Math.abs(x - event.clientX) * 3 + Math.abs(y - event.clientY);
        if (distance < least) [best, least] = [mark, distance];
      }
      show(best);
    });
    canvas.addEventListener("pointerleave", () => show(null));
    canvas.addEventListener("blur", () => show(null));
    canvas.addEventListener("keydown", (event) => {
      const known = shown();
      const place = known.indexOf(at);
      const to = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place < 0 ? known.length - 1 : place - 1,
        ArrowUp: place < 0 ? known.length - 1 : place - 1, Home: 0, End: known.length - 1 }[event.key];
      if (event.key === "Escape") show(null);
      if (to === undefined || !known.length) return;
      event.preventDefault();
      show(known[Math.max(0, Math.min(known.length - 1, to))]);
    });
    for (const button of all(".legend button", chart)) {
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        all(`g[class*=" ${button.dataset.series}"]`, canvas)
          .forEach((group) => group.classList.toggle("off", !on));
        show(null);
      });
    }
    chart.querySelector(".save-svg").addEventListener("click", () => {
      const copy = canvas.querySelector(".drawing.wide").cloneNode(true);
      const colors = getComputedStyle(document.documentElement);
      const text = new XMLSerializer().serializeToString(copy)
        .replace(/var\((--\w+)\)/g, (_, name) => colors.getPropertyValue(name).trim());
      save(`${chart.id}.svg`, text, "image/svg+xml");
    });
  }

  // Only tables that scroll are stops of the Tab key.
  const stops = () => all(".scroll").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  });
  addEventListener("resize", stops);
  document.addEventListener("toggle", stops, true);
  stops();

  const order = (cell) => cell.dataset.value !== undefined ? Number(cell.dataset.value)
    : cell.textContent.trim() !== "" && isFinite(cell.textContent) ? Number(cell.textContent) : null;
  const compare = (a, b, way) => {
    if (a.matches(".unknown") !== b.matches(".unknown")) return a.matches(".unknown") ? 1 : -1;
    const [x, y] = [order(a), order(b)];
    if (x !== null && y !== null) return way * (x - y);
    if ((x === null) !== (y === null)) return way * (x === null ? 1 : -1);
    return way * a.textContent.localeCompare(b.textContent);
  };
  for (const button of all("button.sort")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), table = button.closest("table"), body = table.tBodies[0];
      const down = head.getAttribute("aria-sort") === "ascending";
      all("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const at = head.cellIndex;
      body.append(...[...body.rows].sort((a, b) => compare(a.cells[at], b.cells[at], down ? -1 : 1)));
    });
  }
  for (const button of all("button.save-csv")) {
    button.addEventListener("click", () => {
      const quoted = (text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
      const words = (cell) => cell.dataset.value ?? (cell.matches(".unknown") ? "" : cell.querySelector(".sort")?.textContent ?? cell.textContent);
      const rows = [...document.getElementById(button.dataset.table).rows];
      save(`${button.dataset.table}.csv`, rows.map((row) => [...row.cells].map((cell) => quoted(words(cell).trim())).join(",")).join("\n") + "\n", "text/csv");
    });
  }

  function save(name, text, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }
})();

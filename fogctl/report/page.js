"use strict";
(function () {
  const tip = document.getElementById("tip");
  function show(html, event) {
    tip.innerHTML = html;
    tip.style.display = "block";
    const room = 12, width = tip.offsetWidth, height = tip.offsetHeight;
    let x = event.clientX + room, y = event.clientY + room;
    if (x + width > innerWidth - room) x = event.clientX - width - room;
    if (y + height > innerHeight - room) y = event.clientY - height - room;
    tip.style.left = Math.max(room, x) + "px";
    tip.style.top = Math.max(room, y) + "px";
  }
  function hide() { tip.style.display = "none"; }
  function escaped(text) { const e = document.createElement("i"); e.textContent = text; return e.innerHTML; }

  for (const mark of document.querySelectorAll(".mark")) {
    const title = mark.querySelector("title");
    const text = escaped(title ? title.textContent : "");
    mark.setAttribute("aria-label", title ? title.textContent : "");
    if (title) title.remove();  // or the browser shows its own tip beside ours
    mark.addEventListener("mousemove", event => { show(text, event); event.stopPropagation(); });
    mark.addEventListener("mouseleave", hide);
    mark.addEventListener("focus", () => {
      const box = mark.getBoundingClientRect();
      show(text, { clientX: box.right, clientY: box.bottom });
    });
    mark.addEventListener("blur", hide);
  }

  for (const data of document.querySelectorAll("script.probe")) {
    const probe = JSON.parse(data.textContent);
    const figure = data.closest("figure"), svg = figure.querySelector("svg");
    const hair = document.createElement("div");
    hair.className = "hair";
    figure.appendChild(hair);
    const top = Math.min(...probe.panels.map(p => p[1]));
    const bottom = Math.max(...probe.panels.map(p => p[1] + p[3]));
    const [left, , width] = probe.panels[0];
    svg.addEventListener("mousemove", event => {
      const box = svg.getBoundingClientRect();
      const part = ((event.clientX - box.left) / box.width - left) / width;
      const height = (event.clientY - box.top) / box.height;
      if (part < 0 || part > 1 || height < top || height > bottom) { hair.style.display = "none"; hide(); return; }
      const at = part * probe.xmax;
      let low = 0, high = probe.t.length - 1;
      while (low < high) { const mid = (low + high + 1) >> 1; if (probe.t[mid] <= at) low = mid; else high = mid - 1; }
      const when = probe.unit === "min" ? (probe.t[low] / 60).toFixed(1) + " min" : probe.t[low].toFixed(0) + " s";
      show("<b>time</b> " + when + probe.series.map(s => "<br><b>" + escaped(s.name) + "</b> " + s.v[low].toLocaleString("en") + escaped(s.unit)).join(""), event);
      hair.style.display = "block";
      hair.style.left = event.clientX - figure.getBoundingClientRect().left + "px";
      const shift = box.top - figure.getBoundingClientRect().top;
      hair.style.top = shift + top * box.height + "px";
      hair.style.height = (bottom - top) * box.height + "px";
    });
    svg.addEventListener("mouseleave", () => { hair.style.display = "none"; hide(); });
  }
  document.documentElement.setAttribute("data-ready", "yes");
})();

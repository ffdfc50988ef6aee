// What makes pages better where scripts run; without it everything works as well, by asking for the page again.

const page = document.body.dataset.page;
const live = document.querySelector("[data-live-state]");

function say(text) {
  if (!live) return;
  live.textContent = text;
  live.parentElement.hidden = false;
}

// Pictures that are on the page come again when there is more to be seen; the old one stays until the new one is there.
function renew(image) {
  const at = Math.floor(Date.now() / 1000 / Number(image.dataset.every));
  if (document.hidden || image.dataset.at === String(at)) return;
  image.dataset.at = at;
  const later = (address) => {
    const url = new URL(address, location.href);
    url.searchParams.set("at", at);
    return url.href;
  };
  const next = new Image();
  next.addEventListener("load", () => {
    image.parentElement.querySelectorAll("source").forEach((source) => { source.srcset = later(source.srcset); });
    image.src = later(image.src);
  });
  next.src = later(image.currentSrc || image.src);
}

setInterval(() => document.querySelectorAll("img[data-every]").forEach(renew), 5000);

// A part is not changed under the hands of somebody who uses it.
function replace(part, html) {
  // After a pause all parts are sent again, most of them as they are.
  if (part.shown === html) return;
  part.shown = html;
  const inUse = () => part.contains(document.activeElement) || (!getSelection().isCollapsed && part.contains(getSelection().anchorNode));
  if (inUse()) {
    part.addEventListener("focusout", () => { if (part.waiting) { part.innerHTML = part.waiting; part.waiting = null; } }, { once: true });
    part.waiting = html;
    return;
  }
  part.waiting = null;
  part.innerHTML = html;
}

if (page && "EventSource" in window) {
  const source = new EventSource(`/live?page=${encodeURIComponent(page)}`);
  source.addEventListener("open", () => say("values are live"));
  source.addEventListener("part", (event) => {
    const { id, html } = JSON.parse(event.data);
    const part = document.querySelector(`[data-live="${CSS.escape(id)}"]`);
    if (part) replace(part, html);
  });
  source.addEventListener("end", () => {
    source.close();
    say("values stand still: load the page again");
  });
  source.addEventListener("error", () => say(source.readyState === EventSource.CLOSED ? "values stand still: load the page again" : "values stand still: the node does not answer"));
  addEventListener("pagehide", () => source.close());
}

// What is sent is sent once.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "yes";
  setTimeout(() => delete form.dataset.sent, 10000);
});

// Whoever goes back may send again.
addEventListener("pageshow", () => document.querySelectorAll("form").forEach((form) => delete form.dataset.sent));

// What is wrong is read first.
document.querySelector(".problem[role=alert]")?.focus();

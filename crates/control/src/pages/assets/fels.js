// What makes pages better where scripts run; without it everything works as well, by asking for the page again.

const page = document.body.dataset.page;
const live = document.querySelector("[data-live-state]");

function say(text) {
  if (!live) return;
  live.textContent = text;
  live.parentElement.hidden = false;
}

// A part is not changed under the hands of somebody who uses it.
function replace(part, html) {
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

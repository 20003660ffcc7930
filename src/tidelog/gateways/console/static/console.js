// The console's one script.  Every page works without it; with it, figures refresh, shortcuts work, and tails are live.
"use strict";

const LIVE_MS = 5000;

// Fragments of the page that are fetched again.  The broker, which builds them, escapes all data in them.
function refreshAll() {
  for (const piece of document.querySelectorAll("[data-live]")) refresh(piece);
}

async function refresh(piece) {
  if (document.hidden || piece.contains(document.activeElement) || piece.dataset.busy) return;
  piece.dataset.busy = "yes";
  try {
    const answer = await fetch(piece.dataset.live, { headers: { accept: "text/html" } });
    if (answer.status === 401) return location.reload(); // the session has ended: the page leads to the log-in
    if (!answer.ok) throw new Error(String(answer.status));
    const text = await answer.text();
    if (!piece.contains(document.activeElement)) piece.innerHTML = text;
    say("");
  } catch {
    say("The broker does not answer: the figures are out of date.");
  } finally {
    delete piece.dataset.busy;
  }
}

function say(words) {
  let box = document.getElementById("lost");
  if (!words) {
    if (box) box.remove();
    return;
  }
  if (!box) {
    box = document.createElement("div");
    box.id = "lost";
    box.className = "notice bad";
    box.setAttribute("role", "alert");
    document.querySelector("main").prepend(box);
  }
  box.textContent = words;
}

// Shortcuts: / to search, ? for help, g and a letter to open a section.
let going = 0;

function typing(target) {
  return target.closest("input, textarea, select, [contenteditable]") !== null;
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing(event.target)) {
    event.target.blur();
    return;
  }
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  if (event.key === "/") {
    document.getElementById("find").focus();
    event.preventDefault();
  } else if (event.key === "?") {
    document.getElementById("keys").showModal();
  } else if (event.key === "g" && Date.now() - going > 1500) {
    going = Date.now();
  } else if (Date.now() - going <= 1500) {
    going = 0;
    const place = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (place) place.click();
  }
}

// The theme is kept in a cookie, so that the next page arrives in the right colours.
function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  document.cookie = `tidelog_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
}

// Times of messages: the broker sends UTC, and only the browser knows the local zone.  Kept for the next page.
const ZONE = "tidelog_zone";

function localText(ms) {
  const at = new Date(ms);
  const minutes = -at.getTimezoneOffset();
  const shifted = new Date(ms + minutes * 60_000);
  if (Number.isNaN(shifted.getTime())) return null;
  return shifted.toISOString().slice(0, 23).replace("T", " ");
}

function showTimes() {
  const local = localStorage.getItem(ZONE) === "local";
  for (const time of document.querySelectorAll("time[data-ms]")) {
    time.dataset.utc ??= time.textContent;
    time.textContent = (local && Number(time.dataset.ms) >= 0 && localText(Number(time.dataset.ms))) || time.dataset.utc;
  }
  for (const head of document.querySelectorAll("th, dt")) {
    if (/^Time \((UTC|local)\)$/.test(head.textContent)) head.textContent = local ? "Time (local)" : "Time (UTC)";
  }
  const button = document.querySelector(".zone");
  button.hidden = !document.querySelector("time[data-ms], table[data-tail]");
  button.setAttribute("aria-pressed", String(local));
}

function zone() {
  localStorage.setItem(ZONE, localStorage.getItem(ZONE) === "local" ? "utc" : "local");
  showTimes();
}

// The live tail: rows that the broker sends as messages arrive, the newest on top.
function tail(table) {
  const rows = table.querySelector("tbody");
  const state = document.getElementById("tail-state");
  const button = document.getElementById("tail-pause");
  const max = Number(table.dataset.rows);
  let held = null;
  const source = new EventSource(table.dataset.tail);
  const put = (html) => {
    rows.insertAdjacentHTML("afterbegin", html);
    showTimes();
    while (rows.rows.length > max) rows.deleteRow(-1);
  };
  source.addEventListener("begun", () => { state.textContent = "waiting for messages"; });
  source.addEventListener("rows", (event) => {
    if (held !== null) {
      held.push(event.data);
      if (held.length > max) held.shift();
      state.textContent = `paused, ${held.length} waiting`;
      return;
    }
    put(event.data);
    state.textContent = "live";
  });
  source.addEventListener("skipped", (event) => { state.textContent = event.data; });
  source.addEventListener("failed", (event) => {
    state.textContent = event.data;
    source.close();
  });
  source.addEventListener("error", () => { state.textContent = "connection lost, reconnecting"; });
  button.hidden = false;
  button.addEventListener("click", () => {
    if (held === null) {
      held = [];
      button.textContent = "Resume";
      state.textContent = "paused";
    } else {
      held.forEach(put);
      held = null;
      button.textContent = "Pause";
      state.textContent = "live";
    }
  });
}

function begin() {
  document.addEventListener("keydown", key);
  document.querySelector(".theme").addEventListener("click", theme);
  document.querySelector(".zone").addEventListener("click", zone);
  showTimes();
  document.querySelector(".keys").addEventListener("click", () => document.getElementById("keys").showModal());
  const menu = document.querySelector(".menu");
  menu.addEventListener("click", () => {
    const open = document.querySelector(".side").classList.toggle("open");
    menu.setAttribute("aria-expanded", String(open));
  });
  // A form is submitted once, however often its button is pressed.
  for (const form of document.querySelectorAll("form[data-saves]")) {
    form.addEventListener("submit", () => {
      setTimeout(() => form.querySelectorAll("button").forEach((one) => { one.disabled = true; }), 0);
    });
  }
  for (const select of document.querySelectorAll("select[data-go]")) {
    select.addEventListener("change", () => select.form.requestSubmit());
  }
  if (document.querySelector("[data-live]")) {
    setInterval(refreshAll, LIVE_MS);
    document.addEventListener("visibilitychange", refreshAll);
  }
  document.querySelectorAll("table[data-tail]").forEach(tail);
}

addEventListener("pageshow", (event) => {
  // Back from another page: enable the buttons that the submit disabled.
  if (event.persisted) document.querySelectorAll("button:disabled").forEach((one) => { one.disabled = false; });
});

begin();

// Shows the resources of a service as they fill: each event of /events has all that is to be shown.
// What comes from the service is put into the page as text alone.
"use strict";

// The service says something at least this often, or the connection is lost without anybody having said so.
const SILENCE_MS = 45000;

// It tells of at most so many resources.
const MOST = 200;

const link = document.getElementById("link");
const table = document.getElementById("resources");
const rows = table.tBodies[0].rows;
let source = null;
let heard = 0;
// The resources as they were last heard of.
let shown = [];

function say(state, text) {
  if (link.textContent === text) return;
  link.dataset.state = state;
  link.textContent = text;
  table.classList.toggle("stale", state !== "live");
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function count(number) {
  return number.toLocaleString("en");
}

function age(seconds) {
  if (seconds < 60) return Math.floor(seconds) + " s";
  if (seconds < 3600) return Math.floor(seconds / 60) + " min";
  if (seconds < 48 * 3600) return Math.floor(seconds / 3600) + " h";
  return Math.floor(seconds / 86400) + " d";
}

function child(parent, name, kind, role) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  if (role) element.setAttribute("role", role);
  parent.append(element);
  return element;
}

function addRow() {
  const row = child(table.tBodies[0], "tr", "", "row");
  child(row, "th", "id", "rowheader").scope = "row";
  child(row, "td", "level", "cell");
  const tally = child(row, "td", "tally", "cell");
  // The numbers beside the bar say the same.
  child(tally, "progress").setAttribute("aria-hidden", "true");
  child(tally, "span");
  for (const kind of ["waiting", "state", "age"]) child(row, "td", kind, "cell");
}

function fillRow(row, resource) {
  const [id, level, tally, waiting, state] = row.cells;
  const kind = resource.failed !== null ? "failed" : resource.completed ? "complete" : "open";
  row.dataset.state = kind;
  put(id, resource.id);
  put(level, resource.level + (resource.above ? " ↑" : ""));
  const [bar, numbers] = tally.children;
  bar.max = resource.capacity;
  bar.value = resource.tally;
  put(numbers, count(resource.tally) + " of " + count(resource.capacity));
  put(waiting, count(resource.waiting));
  put(state, kind === "failed" ? "failed: " + resource.failed : kind);
}

function showAges() {
  const since = (performance.now() - heard) / 1000;
  shown.forEach((resource, at) => put(rows[at].cells[5], age(resource.age + since)));
}

function show(resources) {
  shown = resources;
  while (rows.length > shown.length) rows[rows.length - 1].remove();
  while (rows.length < shown.length) addRow();
  shown.forEach((resource, at) => fillRow(rows[at], resource));
  showAges();

  const failed = shown.filter((resource) => resource.failed !== null).length;
  const complete = shown.filter((resource) => resource.failed === null && resource.completed).length;
  const open = shown.length - failed - complete;
  const sum = count(open) + " open, " + count(complete) + " complete, " + count(failed) + " failed";
  put(document.getElementById("sum"), sum);
  put(document.getElementById("order"), shown.length < MOST ? "the newest first" : "the newest alone");
  table.hidden = shown.length === 0;
  document.getElementById("none").hidden = shown.length !== 0;
  document.title = (open ? open + " open – " : "") + "Rendezvous";
}

function lost() {
  say("lost", "Connection lost at " + new Date().toLocaleTimeString("en-GB") + ", trying again…");
}

// The service has refused to be listened to: does it want the token again?
async function refused() {
  try {
    const answer = await fetch("/events", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    // What it has to say is nothing for this request.
    if (answer.body) answer.body.cancel();
    if (answer.status === 401) {
      say("lost", "The service wants its token again: ");
      const again = child(link, "a");
      again.href = "/";
      again.textContent = "log in";
      return;
    }
  } catch {
    // It cannot be reached.
  }
  setTimeout(listen, 2000);
}

function listen() {
  if (source) source.close();
  heard = performance.now();
  source = new EventSource("/events");
  source.addEventListener("resources", (event) => {
    heard = performance.now();
    show(JSON.parse(event.data));
    say("live", "Live");
  });
  source.addEventListener("error", () => {
    if (link.dataset.state !== "lost") lost();
    // Where it is not closed, the browser tries again by itself.
    if (source.readyState === EventSource.CLOSED) refused();
  });
}

setInterval(() => {
  if (source.readyState === EventSource.OPEN && performance.now() - heard > SILENCE_MS) {
    lost();
    listen();
  }
  if (link.dataset.state === "live") showAges();
}, 1000);

listen();

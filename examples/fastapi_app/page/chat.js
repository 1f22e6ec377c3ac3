// Everything that comes from the server is put in as text, never as markup.

const BUDGET = 150; // tokens that the model may be given
const NOTES = [
  { id: "train", content: "The night train to Kyoto leaves Tokyo at nine in the evening and arrives at six." },
  { id: "hotel", content: "The hotel in Kyoto is booked for three nights; breakfast is included." },
  { id: "seat", content: "A window seat on the left side of the train has a view of Mount Fuji." },
  { id: "temple", content: "Kinkaku-ji opens at nine. Tickets are sold at the gate only, and the queue is long before noon." },
  { id: "budget", content: "At most 900 euros for the whole trip, flights not counted.", metadata: { currentGoal: true } },
  { id: "food", content: "Nishiki market: pickles, tofu doughnuts, grilled squid. Most stalls close at five, a few of them on Wednesdays as well. The tea house at its eastern end takes no reservations, but is empty after three." },
  { id: "weather", content: "It rains in Oslo." },
];
const STEP_NAMES = {
  load: "open the context", "search-0": "search memories", update: "add what was found",
  select: "choose items", sample: "answer", turn: "store the turn",
};

const session = sessionStorage.session ??= crypto.randomUUID();
const at = (id) => document.getElementById(id);
const form = at("ask"), question = at("question"), stop = at("stop"), problem = at("problem");

async function call(method, path, body) {
  const sent = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`/api${path}`, { method, ...sent });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error?.message ?? answer.detail ?? response.statusText);
  return answer;
}
const context = (node, body) => call("POST", `/sessions/${session}/context/${node}`, body);

async function ask(text) {
  const shown = showQuestion(text);
  const task = await call("POST", `/sessions/${session}/answer`, { question: text, init: NOTES, maxTokens: BUDGET });
  stop.hidden = false;
  stop.onclick = () => call("DELETE", `/tasks/${task.id}`).catch(tell);
  try {
    showAnswer(shown, await follow(task.id, shown));
  } finally {
    stop.hidden = true;
  }
  await showContext(text);
}

function follow(task, shown) {
  return new Promise((resolve, reject) => {
    const events = new EventSource(`/api/tasks/${task}/events`);
    events.addEventListener("step", ({ data }) => showStep(shown, JSON.parse(data)));
    events.addEventListener("text_delta", ({ data }) => shown.querySelector(".answer").append(JSON.parse(data).text));
    events.addEventListener("end", ({ data }) => {
      events.close(); // it would connect again, and be told of the end again
      resolve(JSON.parse(data));
    });
    events.addEventListener("error", () => { // a lost connection is made again; a refused one is not
      if (events.readyState === EventSource.CLOSED) reject(new Error("the task cannot be followed"));
    });
  });
}

function showQuestion(text) {
  document.querySelector("#messages .empty")?.remove();
  const shown = at("exchange").content.firstElementChild.cloneNode(true);
  shown.querySelector(".asked").textContent = text;
  at("messages").append(shown);
  shown.scrollIntoView({ block: "nearest" });
  return shown;
}

function showStep(shown, { step, status }) {
  const steps = shown.querySelector(".steps");
  let line = [...steps.children].find((each) => each.dataset.step === step);
  if (!line) {
    line = document.createElement("li");
    line.dataset.step = step;
    line.textContent = STEP_NAMES[step] ?? step;
    steps.append(line);
  }
  line.dataset.state = status;
}

function showAnswer(shown, state) {
  const answer = shown.querySelector(".answer");
  answer.dataset.state = state.status;
  const content = state.result?.message.content;
  answer.textContent = state.error?.message ?? (typeof content === "string" ? content : JSON.stringify(content));
}

async function showContext(query) {
  const [all, chosen] = await Promise.all([
    context("load", {}),
    context("select?explain=true", { purpose: "infer", query, maxTokens: BUDGET }),
  ]);
  const contents = new Map(all.context.items.map((item) => [item.id, item.content]));
  const entries = chosen.explanation.entries;
  const kept = entries.filter((entry) => entry.verdict === "kept");
  const summary = `${kept.length} of ${all.items} items kept: ${chosen.tokens} of ${BUDGET} tokens.`;
  at("summary").textContent = `${summary} The whole context has ${all.tokens}.`;
  showMeter(kept, chosen.tokens, summary);
  at("items").replaceChildren(...entries.map((entry) => itemLine(entry, contents.get(entry.id))));
}

function showMeter(kept, tokens, text) {
  const meter = at("meter");
  meter.setAttribute("aria-valuemax", BUDGET);
  meter.setAttribute("aria-valuenow", tokens);
  meter.setAttribute("aria-valuetext", text);
  meter.firstElementChild.replaceChildren(...kept.map(({ id, tokens: size }) => {
    const part = document.createElement("span");
    part.style.flexBasis = `${100 * size / BUDGET}%`;
    part.title = `${id}: ${size} tokens`;
    return part;
  }));
}

function why({ verdict, reason, tokens, used }) {
  if (verdict !== "dropped" || tokens === undefined || used === undefined) return reason;
  return `${reason}: it needs ${tokens} tokens, and ${BUDGET - used} were left`;
}

function itemLine(entry, content) {
  const { id, verdict, tokens } = entry;
  const line = at("item").content.firstElementChild.cloneNode(true);
  line.dataset.verdict = verdict;
  line.querySelector("code").textContent = id.length > 24 ? `${id.slice(0, 8)}…${id.slice(id.lastIndexOf(":"))}` : id;
  line.querySelector("code").title = id;
  line.querySelector(".verdict").textContent = verdict;
  line.querySelector(".tokens").textContent = tokens === undefined ? "" : `${tokens} tokens`;
  line.querySelector(".content").textContent = typeof content === "string" ? content : JSON.stringify(content);
  line.querySelector(".reason").textContent = why(entry);
  return line;
}

function tell(error) {
  problem.textContent = `That did not work: ${error.message}`;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = question.value.trim();
  if (!text) return;
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  problem.textContent = "";
  question.value = "";
  try {
    await ask(text);
  } catch (error) {
    tell(error);
  }
  button.disabled = false;
  question.focus();
});

try {
  await context("load?ifAbsent=true", { sources: NOTES });
  await showContext("");
} catch (error) {
  tell(error);
}
document.body.dataset.ready = "yes";

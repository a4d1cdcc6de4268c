// The page shows one chat: what has been said, and what is being said. It keeps nothing;
// all it shows comes from streams, so a reload or another tab shows the same.

const element = (id) => document.getElementById(id);
const [log, state, form, text, send, stop] = ["log", "state", "prompt", "text", "send", "stop"].map(element);

// The address names the chat: who has it, has the chat.
if (!location.hash) history.replaceState(null, "", `#${crypto.randomUUID()}`);
const chat = location.hash.slice(1);
addEventListener("hashchange", () => location.reload());

// pauses are the waits between tries, ever longer until reset.
function pauses(shortest = 250, longest = 10_000) {
  let next = shortest;
  return {
    reset: () => (next = shortest),
    wait() {
      state.value = "connecting";
      const now = next * (0.5 + Math.random() / 2);
      next = Math.min(2 * next, longest);
      return new Promise((resolve) => setTimeout(resolve, now));
    },
  };
}

// The chat: one message for each prompt, asked for by long-poll. While an answer is
// coming nothing else is asked for, so a tab has one connection and not two.
async function run() {
  const { reset, wait } = pauses();
  for (let offset = "-1", cursor = ""; ; ) {
    try {
      if (offset === "-1") await request("PUT", `/chats/${chat}`);
      const answer = await request("GET", `/streams/chats/${chat}?offset=${offset}&cursor=${cursor}&live=long-poll`);
      const messages = answer.status === 200 ? await answer.json() : []; // 204: nothing has come
      reset();
      for (const message of messages) await show(message);
      state.value = "";
      offset = answer.headers.get("Stream-Next-Offset");
      cursor = answer.headers.get("Stream-Cursor") ?? "";
    } catch (error) {
      console.warn(error.message);
      await wait();
    }
  }
}

async function request(method, url, body) {
  const answer = await fetch(url, { method, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${url}: ${answer.status} ${await answer.text()}`);
  return answer;
}

// show adds a prompt and its answer, and is done when the answer is complete.
async function show({ prompt, answer }) {
  paragraph("asked").textContent = prompt;
  const shown = paragraph("answer");
  answering(answer);
  shown.ariaBusy = "true";
  await follow(answer, (words) => {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
    shown.append(words);
    if (atEnd) log.scrollTop = log.scrollHeight;
  });
  shown.ariaBusy = "false";
  answering(null);
}

function paragraph(kind) {
  const p = document.createElement("p");
  p.className = kind;
  log.append(p);
  log.scrollTop = log.scrollHeight;
  return p;
}

// follow hands over what is in a stream of text and what comes, until it is closed.
function follow(path, onText) {
  const { reset, wait } = pauses();
  return new Promise((resolve) => {
    let offset = "-1";
    const connect = () => {
      const events = new EventSource(`/streams/${path}?offset=${offset}&live=sse`);
      let words = "";
      events.addEventListener("data", ({ data }) => (words = data));
      events.addEventListener("control", ({ data }) => {
        // Words count with the place behind them, so that none come twice.
        const control = JSON.parse(data);
        onText(words);
        words = "";
        offset = control.streamNextOffset;
        state.value = "";
        reset();
        if (!control.streamClosed) return;
        events.close();
        resolve();
      });
      events.addEventListener("error", async () => {
        events.close(); // by itself it would come back to the place where it began
        await wait();
        const answer = await fetch(`/streams/${path}`, { method: "HEAD" }).catch(() => null);
        if (answer?.status === 404) resolve(); // expired
        else connect();
      });
    };
    connect();
  });
}

// answering shows which button there is to press.
let current = null;
function answering(path) {
  current = path;
  stop.hidden = !path;
  send.hidden = Boolean(path);
}

stop.addEventListener("click", () => request("POST", `/${current}/stop`).catch(failed));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (current) return;
  const prompt = text.value;
  try {
    await request("POST", `/chats/${chat}`, { prompt });
    if (text.value === prompt) text.value = "";
  } catch (error) {
    failed(error);
  }
});

text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});

function failed(error) {
  console.warn(error.message);
  state.value = "That did not work. Please try again.";
}

run();

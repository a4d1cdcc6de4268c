// Questions to the person: everything that changes something asks here first.
import { h } from "./dom.js";

// ask opens a dialog and gives what onSubmit made of the answers, or undefined when it
// was left. fields: {name, label, kind, value, hint, required, options, focus}. An error
// of onSubmit is shown and the dialog stays.
export function ask({ title, text, fields = [], action, dangerous, onSubmit }) {
  return new Promise((resolve) => {
    const problem = h("p", { class: "problem", role: "alert" });
    const submit = h("button", { class: dangerous ? "danger" : "main" }, action);
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: "question" }, title),
      text && h("p", {}, text),
      fields.map(field),
      problem,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), submit),
    );
    const dialog = h("dialog", { "aria-labelledby": "question" }, form);
    let result;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      problem.textContent = "";
      try {
        result = (await onSubmit(answers(form, fields))) ?? true;
        dialog.close();
      } catch (error) {
        problem.textContent = error.message;
      }
      submit.disabled = false;
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function field({ name, label, kind = "text", value = "", hint, required, options, focus }) {
  const id = `field-${name}`;
  const shared = { id, name, required, autofocus: focus, "aria-describedby": hint && `${id}-hint` };
  let input;
  if (kind === "area") input = h("textarea", { ...shared, rows: "6", spellcheck: "false", value });
  else if (kind === "check") input = h("input", { ...shared, type: "checkbox", checked: Boolean(value) });
  else input = h("input", { ...shared, type: kind, value, autocomplete: "off", spellcheck: "false", list: options && `${id}-options` });
  return h(
    "div",
    { class: kind === "check" ? "field check" : "field" },
    h("label", { for: id }, label),
    input,
    options && h("datalist", { id: `${id}-options` }, options.map((o) => h("option", { value: o }))),
    hint && h("small", { id: `${id}-hint` }, hint),
  );
}

const answers = (form, fields) => Object.fromEntries(fields.map(({ name, kind }) => [name, kind === "check" ? form.elements[name].checked : form.elements[name].value]));

// inform shows something to read.
export function inform(title, ...content) {
  const dialog = h(
    "dialog",
    { "aria-labelledby": "notice" },
    h("h2", { id: "notice" }, title),
    ...content,
    h("div", { class: "buttons" }, h("button", { type: "button", class: "main", autofocus: true, onclick: () => dialog.close() }, "Close")),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

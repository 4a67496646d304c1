// Completes a question in a text area: a list box that the text area controls (WAI-ARIA: a text box with
// aria-autocomplete="list"; a combobox has one line only).  The focus stays in the text.
const MOST = 12;
const NAME = String.raw`("[^"]+"|[\w.]+)`;
const COMPARED = new RegExp(NAME + String.raw`\s*(?:=|<>|!=)\s*('[^']*|[\w.-]*)$`);
const LISTED = new RegExp(NAME + String.raw`\s+(?:not\s+)?in\s*\((?:[^()]*,)?\s*('[^']*|[\w.-]*)$`, "i");
const TYPED = /"[^"\n]*$|[\w(*]+$/;

// What may stand at the end of a text: {start, choices: [{text, says}]}.
export function choicesFor(before, known, all = false) {
  const compared = COMPARED.exec(before) || LISTED.exec(before);
  if (compared) {
    const column = compared[1].replace(/^"|"$/g, "").toLowerCase();
    const name = Object.keys(known.values).find((each) => each.toLowerCase() === column);
    if (name) {
      const typed = compared[2].toLowerCase();
      const fits = known.values[name].filter((value) =>
        value.toLowerCase().startsWith(typed) || value.toLowerCase().startsWith("'" + typed));
      return { start: before.length - typed.length,
        choices: fits.map((text) => ({ text, says: "a value of " + name })) };
    }
  }
  const typed = TYPED.exec(before)?.[0] ?? "";
  if (!typed && !all) return { start: before.length, choices: [] };
  const begin = typed.toLowerCase();
  const fits = (word) => word.text.toLowerCase().split(/(?<=[^\w])/)
    .some((part, at) => (at ? part : word.text.toLowerCase()).startsWith(begin));
  const first = (word) => word.text.toLowerCase().startsWith(begin) ? 0 : 1;
  return { start: before.length - typed.length,
    choices: known.words.filter((word) => fits(word) && word.text.toLowerCase() !== begin)
      .sort((a, b) => first(a) - first(b)) };
}

export async function complete(area, list, status, address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (!answer.ok) return;
  const known = await answer.json();
  let start = 0;
  let active = -1;

  area.setAttribute("aria-autocomplete", "list");
  area.setAttribute("aria-controls", list.id);

  function close() {
    list.hidden = true;
    active = -1;
    area.removeAttribute("aria-activedescendant");
  }

  function open(all) {
    const found = choicesFor(area.value.slice(0, area.selectionStart), known, all);
    start = found.start;
    const choices = found.choices.slice(0, all ? 100 : MOST);
    list.replaceChildren(...choices.map(option));
    if (!choices.length) {
      status.textContent = "";
      close();
      return;
    }
    active = -1;
    area.removeAttribute("aria-activedescendant");
    list.hidden = false;
    status.textContent = choices.length === 1 ? "1 completion" : `${choices.length} completions`;
  }

  function option(choice, at) {
    const item = document.createElement("li");
    const text = document.createElement("code");
    const says = document.createElement("small");
    item.id = `suggestion-${at}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    text.textContent = choice.text;
    says.textContent = choice.says;
    item.append(text, says);
    item.addEventListener("mousedown", (event) => event.preventDefault()); // the focus stays
    item.addEventListener("click", () => take(item));
    return item;
  }

  function move(to) {
    const options = [...list.children];
    active = (to + options.length) % options.length;
    options.forEach((each, at) => each.setAttribute("aria-selected", String(at === active)));
    area.setAttribute("aria-activedescendant", options[active].id);
    options[active].scrollIntoView({ block: "nearest" });
  }

  // What the key takes: the one that the arrows chose; Tab also the only one there is.
  function chosen(key) {
    const options = list.children;
    return options[active] ?? (key === "Tab" && options.length === 1 ? options[0] : undefined);
  }

  function take(item) {
    const text = item.firstElementChild.textContent;
    area.setRangeText(/\w$|[\])"']$/.test(text) ? text + " " : text, start, area.selectionStart, "end");
    close();
    status.textContent = `${text} taken`;
    area.dispatchEvent(new CustomEvent("input", { bubbles: true, detail: "taken" }));
  }

  area.addEventListener("input", (event) => {
    if (event.detail !== "taken") open(false);
  });
  area.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      open(true);
    } else if (list.hidden) {
      return;
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? active + 1 : Math.max(active, 0) - 1);
    } else if (["Enter", "Tab"].includes(event.key) && chosen(event.key)) {
      event.preventDefault();
      take(chosen(event.key));
    } else if (event.key === "Escape") {
      event.preventDefault();
      close();
    }
  });
  area.addEventListener("blur", close);
}

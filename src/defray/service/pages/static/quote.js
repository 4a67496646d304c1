// Shows what a question would cost while it is typed.  The server renders the price and escapes all text.
const WAIT = 350; // ms without a change

export function pricing(form, place) {
  let timer = 0;
  let asked = null;
  let shown = "";

  async function price() {
    const fields = new URLSearchParams(new FormData(form));
    const sql = fields.get("sql").trim();
    if (!sql || fields.toString() === shown) return;
    asked?.abort();
    asked = new AbortController();
    place.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(form.dataset.quote, {
        method: "POST",
        body: fields,
        headers: { Accept: "text/html", "X-Part": "quote" },
        signal: asked.signal,
      });
      place.innerHTML = await answer.text();
      shown = fields.toString();
    } catch (error) {
      if (error.name === "AbortError") return;
      place.textContent = "The server cannot be reached; nothing was charged.";
    }
    place.removeAttribute("aria-busy");
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(price, WAIT);
  });
  if (form.elements.sql.value.trim() && !place.querySelector(".trouble")) price();
}

// Shows how far an ask has come, and its answer when it is there.
const place = document.getElementById("follow");
const bar = document.getElementById("progress");
const EVERY = 700; // ms

async function look() {
  try {
    const answer = await fetch(place.dataset.progress, { headers: { Accept: "application/json" } });
    const job = answer.ok ? await answer.json() : { state: "gone" };
    if (job.state !== "running") {
      location.reload();
      return;
    }
    bar.value = job.progress;
  } catch {
    document.getElementById("state").textContent = "The server cannot be reached; trying again.";
  }
  setTimeout(look, EVERY);
}

setTimeout(look, EVERY);

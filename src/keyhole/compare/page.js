"use strict";
const body = document.body;
const named = [...document.querySelectorAll("[data-learner]")];
function follow(name) {
  body.classList.toggle("following", name !== null);
  for (const one of named) one.classList.toggle("followed", one.dataset.learner === name);
}
for (const one of named) {
  one.addEventListener("mouseenter", () => follow(one.dataset.learner));
  one.addEventListener("mouseleave", () => follow(null));
}

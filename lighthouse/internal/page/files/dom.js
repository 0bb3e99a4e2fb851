// Makes elements and patches them. Text goes in as text, never as markup: names and
// evidence come from others and may be anything.

const svgSpace = "http://www.w3.org/2000/svg";

/** el makes an element: el("div", {class: "row", onclick: f}, "text", other). */
export function el(tag, attrs, ...kids) {
  return fill(document.createElement(tag), attrs, kids);
}

/** svg makes an element of a drawing. */
export function svg(tag, attrs, ...kids) {
  return fill(document.createElementNS(svgSpace, tag), attrs, kids);
}

function fill(e, attrs, kids) {
  for (const [k, v] of Object.entries(attrs || {})) {
    if (v === null || v === undefined || v === false) continue;
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? "" : k === "title" ? plain(String(v)) : v);
  }
  for (const kid of kids) if (kid !== null && kid !== undefined) e.append(typeof kid === "string" ? plain(kid) : kid);
  return e;
}

/** say sets an element's text, if it differs. */
export function say(e, text) {
  text = text === null || text === undefined ? "" : String(text);
  if (e.skerryText === text) return;
  e.skerryText = text;
  e.textContent = plain(text);
}

/** plain shows what would not be seen, or would turn the text around: two names must not look the same. */
export const plain = text => text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, c => "⟨" + c.codePointAt(0).toString(16).padStart(4, "0") + "⟩");

/** name shows what others chose: apart from the direction of the text around it, all of it in the tooltip. */
export function name(e, shown, whole) {
  say(e, shown);
  hint(e, whole === undefined ? shown : whole);
}

/** hint sets an element's tooltip, if it differs. */
export function hint(e, text) {
  set(e, "title", text ? plain(text) : null);
}

/** set sets an attribute, or takes it away for null, if it differs. */
export function set(e, attr, value) {
  if (value === null || value === undefined || value === false) {
    if (e.hasAttribute(attr)) e.removeAttribute(attr);
    return;
  }
  value = value === true ? "" : String(value);
  if (e.getAttribute(attr) !== value) e.setAttribute(attr, value);
}

/** show shows or hides an element. */
export function show(e, yes) {
  if (e.hidden === yes) e.hidden = !yes;
}

/**
 * keyed makes parent's children those of items, in order. An element stays with its key:
 * what has not changed is not touched, what moved is moved, and what has the focus keeps it.
 */
export function keyed(parent, items, key, make, update) {
  const had = parent.skerryKids || new Map();
  const now = new Map();
  const focused = document.activeElement;
  for (const item of items) {
    const k = key(item);
    if (now.has(k)) continue;
    const e = had.get(k) || make(item);
    now.set(k, e);
    update(e, item);
  }
  for (const [k, e] of had) if (now.get(k) !== e) e.remove();
  let at = parent.firstChild;
  for (const e of now.values()) {
    if (e === at) at = at.nextSibling;
    else parent.insertBefore(e, at);
  }
  parent.skerryKids = now;
  if (focused !== document.activeElement && focused && focused.isConnected) focused.focus({preventScroll: true});
}

let pressed = false;
addEventListener("pointerdown", () => { pressed = true; }, true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => { pressed = false; }, 100), true);

/** busy says that the user presses something or has selected text: what is drawn anew then is lost to them. */
export function busy() {
  const s = getSelection();
  return pressed || (s && !s.isCollapsed && s.toString() !== "");
}

// The script of every page of the book.
import { mountAll } from "../../attnlib/explore/page.mjs";
import { makeAccessible } from "./accessible.js";
import { mountFigures } from "./figures.js";
import { searchLocally } from "./search.js";
import { printLight } from "./theme.js";

makeAccessible(document);
searchLocally();
printLight();
mountFigures(document);
mountAll(document);

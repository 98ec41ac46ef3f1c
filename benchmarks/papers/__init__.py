"""The papers' tables and figures, measured again, with what the papers print beside them."""

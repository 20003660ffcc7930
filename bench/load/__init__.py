"""One scenario per file: `SCENARIO` names its rows and goals, and a function that measures one system."""

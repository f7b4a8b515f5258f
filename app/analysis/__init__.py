"""What the pages compute of maps and tables: pure NumPy, no Streamlit."""

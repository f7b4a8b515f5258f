document.querySelector('[data-testid="stMain"]')?.scrollTo({top: 0});

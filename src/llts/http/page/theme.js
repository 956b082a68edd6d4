// The chosen theme, set before the first paint: a module would come too late. Without a choice the style follows the system.
{
    const chosen = localStorage.getItem('llts-theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
}
